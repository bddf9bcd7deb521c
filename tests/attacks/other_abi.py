"""Call the kernel by its 32-bit numbers, which a filter of 64-bit numbers does not know."""

import ctypes
import mmap
import os
import sys

if os.uname().machine != "x86_64":
    sys.exit(1)
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
code = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
sys.exit(0 if code() == os.getpid() else 1)
