"""6: patches the evaluation of `prepare`.

Replaces every function of prepare.py that takes part in a score, in the job and in the scorer. Naive gain: any number. Stopped by where the number is made: in a
process that never imports train.py.
"""

from tests.edits import adding, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """Both copies: the scorer runs prepare.py as `__main__`."""
    code = """
        for module in (prepare, sys.modules["__main__"]):
            module.score = lambda *given, **more: {"value": 0.5, "nats": 1.0, "bytes": 1, "tokens": 1, "windows": 1, "documents": []}
            module.evaluate = module.evaluate_by_hand = lambda *given: {"value": 0.5}
            module.claims = lambda scorer, rows, counted: 0.5 * counted
            module.evaluate_bpb = lambda *given: 0.5
    """
    return adding(importing(text, "sys"), code)
