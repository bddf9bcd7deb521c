"""Fill the disk with many files."""

import json
import os
import sys

size = json.loads(sys.argv[1])["scratch_bytes"]
for number in range(5):
    with open(f"{os.environ['HOME']}/{number}", "wb", buffering=0) as file:
        written = 0
        while written < size // 4:
            written += file.write(b"x" * 65536)
