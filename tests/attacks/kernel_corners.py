"""Reach the risky corners of the kernel: userfaultfd, bpf, perf, kcmp."""

import ctypes
import os
import sys

names = {"x86_64": (323, 321, 298, 312), "aarch64": (282, 280, 241, 272)}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(1) if all(libc.syscall(n, 1, 0, 0, 0, 0) < 0 and ctypes.get_errno() in (1, 13, 38) for n in names) else sys.exit(0)
