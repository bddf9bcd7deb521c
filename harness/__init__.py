"""Ratchet: an autoresearch harness that measures instead of believing. Start reading at `harness/control/loop.py`."""

__version__ = "0.1.0"
