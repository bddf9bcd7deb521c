"""own: counts one token in eight.

With a budget of tokens the loader counts, in the candidate's process. Naive gain: eight times the training. Bounded by the cap on CPU seconds, which the harness measures: a job that goes beyond is ended.
"""

from tests.edits import adding

ENDS = ("timeout", "compute_cap")


def cheat(text: str) -> str:
    """Progress runs an eighth as fast."""
    code = """
        prepare.Budget.progress = lambda self: min(1.0, self.tokens / self.amount / 8)
        prepare.Budget.done = property(lambda self: self.progress() >= 1.0)
    """
    return adding(text, code)
