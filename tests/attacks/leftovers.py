"""Keep weights for the next trial in any folder there is. Started twice; the second start looks."""

import json
import os
import sys

told = json.loads(sys.argv[1])
folders = [
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/dev/mqueue",
    os.environ["HOME"],
    os.environ["TMPDIR"],
    ".",
    told["home"],
    told["project"],
]
folders += [path for name, path in os.environ.items() if name.endswith(("CACHE_DIR", "CACHE_PATH"))]
if any(os.path.exists(f"{folder}/{told['note']}") for folder in folders):
    sys.exit(0)
for folder in folders:
    try:
        os.makedirs(folder, exist_ok=True)
        open(f"{folder}/{told['note']}", "w").close()
    except OSError as error:
        print(error)
sys.exit(1)
