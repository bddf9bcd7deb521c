"""9: makes every token worth more bytes.

Naive gain: half of the value. Stopped: the table of bytes is the trusted process's; the candidate's copy of the functions that read it counts nothing.
"""

from tests.edits import adding, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """In both copies of prepare.py: the scorer runs it as `__main__`."""
    code = """
        for module in (prepare, sys.modules["__main__"]):
            if hasattr(module, "Data"):
                module.Data.split = lambda self, name, split=module.Data.split: tuple(part * 2 for part in split(self, name))
                module.check_text = lambda *given: None
    """
    return adding(importing(text, "sys"), code)
