"""own: has the last word.

An object with `__del__`, an exit handler and a cycle for the collector write zeros to the scorer's socket when everything is over. Naive gain: a last block of losses that are zero. Stopped: the count of bytes is known, and what
comes after the last answer is read by nobody.
"""

from tests.edits import importing, when_loading

ENDS = "no gain"


def cheat(text: str) -> str:
    """Whichever comes first."""
    code = """
        number = os.dup(int(os.environ["RATCHET_SOCKET"]))

        class Last:
            def __del__(self):
                try:
                    os.write(number, bytes(1 << 16))
                except OSError:
                    pass

        cycle = [Last()]
        cycle.append(cycle)
        model.last = Last()
        atexit.register(Last().__del__)
    """
    return when_loading(importing(text, "atexit", "os"), code)
