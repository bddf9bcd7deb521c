"""Find a key in the environment of any process."""

import glob
import json
import sys

key = json.loads(sys.argv[1])["key"].encode()
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        if key in open(path, "rb").read():
            sys.exit(0)
    except OSError:
        continue
sys.exit(1)
