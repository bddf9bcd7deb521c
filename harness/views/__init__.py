"""Views: read the journal, change nothing that matters."""
