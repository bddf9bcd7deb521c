"""own: writes its checkpoint again when it exits.

Says `done`, would train on for two seconds, and writes the better weights from an exit handler. Naive gain: ten seconds of training that no clock counts. Stopped: the hash at `done` is compared with that at the
end.
"""

from tests.edits import before_saving, importing

ENDS = ("invalid", "checkpoint_changed")


def cheat(text: str) -> str:
    """The descriptor is kept by a second name."""
    code = """
        kept = os.dup(prepare._job.channel.descriptors[1])

        def train_on():
            time.sleep(2)
            weights = bytes(4096)
            os.pwrite(kept, weights, os.fstat(kept).st_size - len(weights))

        atexit.register(train_on)
    """
    return before_saving(importing(text, "atexit", "os", "time"), code)
