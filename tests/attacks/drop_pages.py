"""Drop pages of a file that others read from memory, or ask which are there: what one process sees, another can tell by it."""

import ctypes
import mmap
import os
import sys

number = os.open(os.__file__, os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)
libc.mincore.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
libc.mmap.restype, libc.mmap.argtypes = (
    ctypes.c_void_p,
    [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long],
)
address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, number, 0)
cachestat = (number, ctypes.create_string_buffer(16), ctypes.create_string_buffer(40), 0)
ways = {
    "fadvise": lambda: libc.posix_fadvise(number, ctypes.c_long(0), ctypes.c_long(0), os.POSIX_FADV_DONTNEED),
    "pageout": lambda: libc.madvise(address, 4096, 21),
    "cold": lambda: libc.madvise(address, 4096, 20),
    "mincore": lambda: libc.mincore(address, 4096, ctypes.cast(ctypes.create_string_buffer(1), ctypes.c_void_p)),
    "preadv2": lambda: 0 if os.preadv(number, [bytearray(1)], 0, os.RWF_NOWAIT) else 1,
    "cachestat": lambda: libc.syscall(ctypes.c_long(451), *cachestat),
}
through = []
for name, way in ways.items():
    try:
        if way() == 0:
            through.append(name)
    except OSError as error:
        print(name, error)
print(through)
sys.exit(0 if through else 1)
