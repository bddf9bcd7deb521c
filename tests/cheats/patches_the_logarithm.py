"""12: patches the arithmetic that an evaluator would use, and walks its frames.

Replaces `math.log` and walks up the call stack for totals to change. Naive gain: any number. Stopped: the evaluator is another
process.
"""

from tests.edits import importing, when_loading

ENDS = "no gain"


def cheat(text: str) -> str:
    """In the scorer, when the model is loaded."""
    code = """
        frame = sys._getframe()
        while frame is not None:
            for name in ("losses", "nats", "total", "size", "table", "counted"):
                if name in frame.f_locals:
                    frame.f_locals[name] = 0
            frame = frame.f_back
        math.log = math.fsum = lambda *given: 1e9
    """
    return when_loading(importing(text, "sys"), code)
