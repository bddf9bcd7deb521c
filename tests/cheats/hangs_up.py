"""own: hangs up when the rows get hard.

Closes its socket after half of the questions. Naive gain: the mean over what was answered. Stopped: every row must be answered; what is cut short is no measurement.
"""

from tests.edits import answering, importing

ENDS = ("crash", "scorer_died")


def cheat(text: str) -> str:
    """By its own end, with exit code 0."""
    body = """
        self.seen["asked"] = self.seen.get("asked", 0) + 1
        if self.seen["asked"] > 60:
            os._exit(0)
        return logits
    """
    return answering(importing(text, "os"), body)
