"""Live on after the trial: forked twice, in a session of its own, deaf to TERM. Whoever runs this looks for the process."""

import os
import signal
import sys
import time

if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
sys.exit(1)
