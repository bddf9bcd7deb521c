"""Leave a note in the attributes of a file that is handed over for reading: its owner may, Landlock or not."""

import json
import os
import sys

number = json.loads(sys.argv[1])["data_descriptor"]
for path in (number, f"/proc/self/fd/{number}"):
    try:
        os.setxattr(path, "user.ratchet-note", b"the weights of the last trial")
    except OSError as error:
        print(path, error)
    else:
        os.removexattr(path, "user.ratchet-note")
        sys.exit(0)
sys.exit(1)
