"""Open a socket towards the host of a virtual machine."""

import socket

socket.socket(40, socket.SOCK_STREAM)
