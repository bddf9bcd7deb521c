"""Make what is read-only writable again. The changed view is this process's own where it works."""

import ctypes
import sys

libc = ctypes.CDLL(None)
libc.unshare(0x20000)
sys.exit(0 if libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None) == 0 else 1)
