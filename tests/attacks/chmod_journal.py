"""Take the journal's mode, times and attributes: none of these opens the file."""

import json
import os
import sys

journal = json.loads(sys.argv[1])["project"] + "/runs/t/journal.jsonl"
for attempt in (lambda: os.chmod(journal, 0o644), lambda: os.utime(journal), lambda: os.setxattr(journal, "user.x", b"x")):
    try:
        attempt()
        sys.exit(0)
    except OSError as error:
        print(error)
sys.exit(1)
