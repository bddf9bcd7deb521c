"""Keep something in a keyring of the kernel."""

import ctypes
import os
import sys

number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
sys.exit(0 if ctypes.CDLL(None).syscall(number, b"user", b"ratchet-attack", b"x", 1, -2) >= 0 else 1)
