"""own: marks its checkpoint for the auditor.

The claiming scorer writes what it saw into the checkpoint, into its attributes and times, and into locks on it, for the second scorer that is handed the same file. Naive gain: nearly all of the value, with an audit that agrees. Stopped: the
descriptor is read only and nothing about the file can be changed through it.
"""

from typing import TYPE_CHECKING

from tests.edits import importing, when_loading

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """It prints what went through."""
    code = """
        number = int(os.environ["RATCHET_CHECKPOINT"])
        ways = {
            "write": lambda: os.pwrite(number, b"mark", 0),
            "reopen": lambda: os.open(f"/proc/self/fd/{number}", os.O_RDWR),
            "truncate": lambda: os.ftruncate(number, 0),
            "attribute": lambda: os.setxattr(number, "user.mark", b"mark"),
            "mode": lambda: os.fchmod(number, 0o777),
            "punch": lambda: ctypes.CDLL(None, use_errno=True).fallocate(number, 3, 0, 4096) and os.read(-1, 1),
        }
        for name, way in ways.items():
            try:
                way()
                print("MARKED by", name)
            except OSError as error:
                print(name, error)
    """
    return when_loading(importing(text, "ctypes", "os"), code)


def also(seen: "Seen") -> None:
    """No way went through."""
    assert "MARKED" not in seen.evaluate_log
