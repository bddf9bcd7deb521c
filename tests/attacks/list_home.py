"""Look around in the home folder."""

import json
import os
import sys

told = json.loads(sys.argv[1])
sys.exit(0 if "canary-in-home" in os.listdir(told["home"]) else 1)
