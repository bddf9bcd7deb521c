"""Keep weights for the next trial in System V shared memory. Started twice; the second start looks."""

import ctypes
import json
import os
import sys

number, key = {"x86_64": 29, "aarch64": 194}[os.uname().machine], json.loads(sys.argv[1])["shm_key"]
libc = ctypes.CDLL(None)
found = libc.syscall(number, key, 4096, 0o666)
if found >= 0:
    libc.shmctl(found, 0, None)
    sys.exit(0)
libc.syscall(number, key, 4096, 0o1666)
sys.exit(1)
