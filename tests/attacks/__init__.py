"""One small program an attack: exit code 0 when it got through, anything else when it was stopped. `tests/cages.py` runs them in the real sandbox."""
