"""The embedded corpus, as package data: sotu.txt.xz, its notice, and the script that rebuilds it."""
