"""`python -m harness.execution.deliver`: one message to a few Apprise addresses, in a process of its own.

The order comes by standard input, so that no address shows in a process list; what came of each channel goes to standard output in fixed words, never in those of a
service, which may repeat an address. The process ends at its time limit, whatever a server does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any

DELIVERED = ""
UNKNOWN = "Apprise does not understand its address"
FAILED = "its service could not be reached, or refused the message"
LATE = "no answer in time; it may or may not have arrived"
REASONS = (DELIVERED, UNKNOWN, FAILED, LATE)


def deliver(order: dict[str, Any]) -> dict[str, str]:
    """Outcomes by channel; without a `body` the addresses are only looked at."""
    outcomes, deadline = dict.fromkeys(order["addresses"], LATE), time.monotonic() + order["seconds"]
    threads = [threading.Thread(target=_one, args=(name, order, outcomes), daemon=True) for name in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(outcomes)


def _one(name: str, order: dict[str, Any], outcomes: dict[str, str]) -> None:
    import apprise

    asset = apprise.AppriseAsset(app_id="Ratchet", storage_mode=apprise.PersistentStoreMode.MEMORY, secure_logging=True)
    service = apprise.Apprise(asset=asset)
    if not service.add(order["addresses"][name]):
        outcomes[name] = UNKNOWN
    elif order["body"] is None:
        outcomes[name] = DELIVERED
    else:
        done = service.notify(body=order["body"], title=order["title"], body_format=apprise.NotifyFormat.TEXT)
        outcomes[name] = DELIVERED if done else FAILED


def main() -> None:
    """Read the order, carry it out, say what came of it, and be gone, threads included."""
    logging.disable(logging.CRITICAL)
    order = json.loads(sys.stdin.buffer.read())
    watchdog = threading.Timer(order["seconds"] + 1, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    outcomes = deliver(order)
    os.write(1, json.dumps(outcomes).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
