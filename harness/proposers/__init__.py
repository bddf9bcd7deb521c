"""Proposers: where changes come from."""
