"""Evaluation plane: may it run, what was measured, is it better."""
