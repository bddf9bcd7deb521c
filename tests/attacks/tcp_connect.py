"""Call somebody over TCP."""

import json
import socket
import sys

socket.create_connection(("127.0.0.1", json.loads(sys.argv[1])["port"]), 2).close()
