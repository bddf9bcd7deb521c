"""20: truncates whatever it was handed.

Naive gain: the harness dies of SIGBUS, and with it the night. Stopped: what is handed over is read only, or the job's alone to write.
"""

from tests.edits import importing, when_loading

ENDS = "no gain"


def cheat(text: str) -> str:
    """In the scorer: every descriptor."""
    code = """
        for number in os.listdir("/proc/self/fd"):
            try:
                os.ftruncate(int(number), 0)
            except OSError as error:
                print(number, error)
    """
    return when_loading(importing(text, "os"), code)
