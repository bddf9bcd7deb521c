"""Artifact plane: what is on disk. It knows file names and durability, nothing of verdicts."""
