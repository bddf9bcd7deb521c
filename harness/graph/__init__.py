"""Graph plane: commits, lineage and duplicates. The only writer of the user's repository."""
