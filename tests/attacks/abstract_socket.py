"""Connect to a service that has an abstract socket."""

import json
import socket
import sys

socket.socket(socket.AF_UNIX).connect("\0" + json.loads(sys.argv[1])["abstract"])
