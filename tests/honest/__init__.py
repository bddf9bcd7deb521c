"""Honest models of five kinds as edits of train.py: each must train, load and pass every audit, for none of them looks ahead.

`honest` makes the file; the docstring says what is unlike ours and why an audit could be wrong about it.
"""
