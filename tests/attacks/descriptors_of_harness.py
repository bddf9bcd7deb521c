"""Take an open file out of a process outside: pidfd_getfd, /proc/PID/fd."""

import ctypes
import json
import os
import sys

pid = json.loads(sys.argv[1])["pid"]
if os.path.exists(f"/proc/{pid}/fd/0"):
    sys.exit(0)
handle = os.pidfd_open(pid)
sys.exit(0 if ctypes.CDLL(None).syscall(438, handle, 0, 0) >= 0 else 1)
