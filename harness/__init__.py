"""Ratchet: an autoresearch harness whose overnight gain is proven. Start reading at `harness/control/loop.py`."""

__version__ = "0.1.0"
