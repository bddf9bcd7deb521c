"""Read the key that lies in a .env of the project."""

import json
import sys

print(open(json.loads(sys.argv[1])["project"] + "/.env").read())
