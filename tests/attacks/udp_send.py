"""Let a name server carry a message: UDP."""

import json
import socket
import sys

socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", json.loads(sys.argv[1])["port"]))
