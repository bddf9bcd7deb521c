"""Control plane: the loop and its budget."""
