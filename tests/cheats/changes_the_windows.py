"""22: edits context, rows and vocabulary in its own copy of the constants.

Naive gain: fewer and easier rows. Stopped: the harness chooses rows, length and count, from a prepare.py that the candidate never writes.
"""

from tests.edits import adding, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """In the scorer only: in training another context is a legal idea."""
    code = """
        if "RATCHET_CHECKPOINT" in os.environ:
            for module in (prepare, sys.modules["__main__"]):
                module.PROFILES = {name: module.Profile("x", 16, 8, True, 1, ("tokens", 8), {}) for name in module.PROFILES}
                module.MAX_LINE, module.windows = 64, lambda ids, profile: ids[:9].reshape(1, 9)
    """
    return adding(importing(text, "os", "sys"), code)
