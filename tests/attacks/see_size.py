"""See that the validation text exists, and how long it is."""

import json
import os
import sys

print(os.stat(json.loads(sys.argv[1])["validation"]).st_size)
