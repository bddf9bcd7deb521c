"""Become root of a user namespace of one's own; through clone as well."""

import ctypes
import os
import sys

libc = ctypes.CDLL(None)
if os.fork() == 0:
    os._exit(0 if libc.unshare(0x10000000) == 0 else 1)
if os.waitstatus_to_exitcode(os.wait()[1]) == 0:
    sys.exit(0)
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
pid = libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
sys.exit(0 if pid > 0 else 1)
