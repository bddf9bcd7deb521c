"""Set the clock of the machine. It asks for the right and changes nothing."""

import ctypes
import os
import sys

number = {"x86_64": 164, "aarch64": 170}[os.uname().machine]
sys.exit(0 if ctypes.CDLL(None).syscall(number, None, None) == 0 else 1)
