"""Read the memory of a process outside, through /proc and by system call."""

import ctypes
import json
import os
import sys

told = json.loads(sys.argv[1])
buffer = ctypes.create_string_buffer(8)
mine, theirs = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8), (ctypes.c_void_p * 2)(told["address"], 8)
number = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, told["pid"], mine, 1, theirs, 1, 0) == 8:
    sys.exit(0)
with open(f"/proc/{told['pid']}/mem", "rb", buffering=0) as memory:
    memory.seek(told["address"])
    memory.read(8)
