"""own: floods whatever listens.

Megabytes of output without a line end, points by the thousand with names and numbers that no file holds, descriptors nobody asked for. Naive gain: a harness that stops reading, or dies, and a trial that is not judged. Stopped:
every reader has a cap.
"""

from tests.edits import before_saving, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """In the job, before it says `done`."""
    code = """
        os.write(1, b"x" * (4 << 20))
        for number in range(3000):
            prepare._job.channel.send("point", {"loss": number * 1e300, "step": 2**62, "_" * 1000: 1, "\\u202e": 1, "nested": [[[]]]})
        for _ in range(50):
            socket.send_fds(prepare._job.channel.sock, [b'{"point": {}}\\n'], [0, 1, 2])
    """
    return before_saving(importing(text, "os", "socket"), code)
