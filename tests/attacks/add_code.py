"""Put code beside the own code, for the scorer to import."""

open("sitecustomize.py", "w").close()
