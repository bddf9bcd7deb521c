"""Start more processes than are allowed."""

import json
import os
import signal
import sys
import time

pids = []
try:
    for _ in range(json.loads(sys.argv[1])["pids"] + 20):
        pids.append(os.fork())
        if not pids[-1]:
            time.sleep(30)
            os._exit(0)
    code = 0
except OSError as error:
    print(error)
    code = 1
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
sys.exit(code)
