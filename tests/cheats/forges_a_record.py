"""own: forges the evaluator's record.

Writes a `record` with a value of 0.5 to every descriptor that the scorer holds, before it says ready and as its last words. Naive gain: any number. Stopped: the scorer's socket leads to the trusted process only, which expects
losses there; a record needs the token of this evaluation.
"""

from tests.edits import importing, when_loading

ENDS = ("crash", "load_failed", "scorer_died")


def cheat(text: str) -> str:
    """Complete but for the token, which it cannot know."""
    code = r"""
        told = {"token": "0" * 32, "value": 0.5, "nats": 1.0, "bytes": 490293, "tokens": 1, "windows": 1, "documents": [], "data_sha256": "0" * 64}
        line = json.dumps({"record": told}).encode() + b"\n"
        for number in range(3, 64):
            try:
                os.write(number, line)
            except OSError:
                continue
    """
    return when_loading(importing(text, "json", "os"), code)
