"""own: hands the evaluator so many descriptors that it cannot open its data.

Blanks before its `ready`, each with four descriptors. Naive gain: none; but the evaluator dies, the machine gets the blame, and after three such trials the night is over. Stopped: the evaluator takes no
descriptors from a scorer.
"""

from tests.edits import importing, when_loading

ENDS = "no gain"


def cheat(text: str) -> str:
    """By the scorer's own channel."""
    code = """
        end = socket.socket(fileno=os.dup(int(os.environ["RATCHET_SOCKET"])))
        for _ in range(1000):
            socket.send_fds(end, [b" "], [0, 1, 2, 0])
    """
    return when_loading(importing(text, "os", "socket"), code)
