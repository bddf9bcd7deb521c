"""Find a key in the own environment."""

import json
import os
import sys

sys.exit(0 if json.loads(sys.argv[1])["key"] in str(dict(os.environ)) else 1)
