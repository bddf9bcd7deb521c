"""Attach to a process outside as a debugger does."""

import ctypes
import json
import sys

pid = json.loads(sys.argv[1])["pid"]
libc = ctypes.CDLL(None)
if libc.ptrace(16, pid, None, None) == 0:
    libc.ptrace(17, pid, None, None)
    sys.exit(0)
sys.exit(1)
