"""Walk out of the sandbox from a descriptor that was handed over."""

import json
import os
import sys

descriptor = json.loads(sys.argv[1])["data_descriptor"]
for path in ("..", ".", ""):
    try:
        os.close(os.open(path or ".", os.O_RDONLY, dir_fd=descriptor))
        sys.exit(0)
    except OSError as error:
        print(error)
sys.exit(1)
