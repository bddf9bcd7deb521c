"""Landlock for the calling process: files by a list of grants, no TCP, no abstract sockets and no signals to anybody outside.

Each part is used where the running kernel knows it; what it does not know is found open by the probe, and said.
"""

import ctypes
import os
import stat

from harness.execution.sandbox import kernel

NAMES, READ, EXECUTE_READ = 0b1000, 0b1100, 0b1101
FILE_BITS = 0b111 | 1 << 14 | 1 << 15 | 1 << 16  # execute, write, read; truncate, ioctl, sockets by path
DEVICE = 0b110 | 1 << 14 | 1 << 15
BITS_BY_ABI = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15), (9, 1 << 16))
O_PATH = 0o10000000


def abi() -> int:
    """The version that the kernel offers, 0 for none."""
    try:
        return kernel.syscall("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def restrict(grants: "list[tuple[str, str]]") -> None:
    """Keep only what is granted: a path, and `r` for reading and executing, `l` for reading alone, `n` for names of files, `w` for everything, `d` for a device. Missing paths are left out."""
    version = abi()
    if not version:
        return
    handled = sum(bits for since, bits in BITS_BY_ABI if version >= since)
    words = (ctypes.c_uint64 * 3)(handled, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 8 * (1 if version < 4 else 2 if version < 6 else 3)
    rules = kernel.syscall("landlock_create_ruleset", words, size, 0)
    kinds = {"n": NAMES, "r": EXECUTE_READ, "l": READ, "w": handled, "d": DEVICE}
    for path, kind in grants:
        _grant(rules, path, kinds[kind] & handled)
    kernel.syscall("landlock_restrict_self", rules, 0)
    os.close(rules)


def _grant(rules: int, path: str, bits: int) -> None:
    class Beneath(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = [("bits", ctypes.c_uint64), ("parent", ctypes.c_int32)]

    try:
        parent = os.open(path, O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = bits if stat.S_ISDIR(os.fstat(parent).st_mode) else bits & FILE_BITS
        kernel.syscall("landlock_add_rule", rules, 1, ctypes.byref(Beneath(allowed, parent)), 0)
    finally:
        os.close(parent)
