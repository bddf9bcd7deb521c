"""Read the validation text."""

import json
import sys

print(open(json.loads(sys.argv[1])["validation"]).read())
