"""One file a way to a better number without a better model. `cheat` makes the cheating train.py of the honest one.

The docstring begins with the row of the list of cheats that the metric was designed against, or with `own`, and says what it does, what a naive
evaluation would give, and what stops it. What must become of it is in the file too:

- `ENDS`: status and reason of its trial, or `"no gain"`: scored no better than the honest program; or `"bounded"`: what is gained is real, and `also` says how much.
- `WITHOUT_GROUP`: the same where no control group can be made.
- `TEMPTING = True`: its own claim is better than the honest value, so that an evaluation that believed it would keep it.
- `also(seen)`: what else must hold (tests/test_cheats.py hands it `Seen`). `TWICE`: a second trial follows, with the first one's leftovers if it had any.
"""
