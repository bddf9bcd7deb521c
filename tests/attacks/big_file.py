"""Write a file that is larger than allowed."""

import json
import os
import signal
import sys

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open(os.environ["HOME"] + "/big", "wb", buffering=0) as file:
    written = 0
    while written <= json.loads(sys.argv[1])["scratch_bytes"]:
        written += file.write(b"x" * 65536)
