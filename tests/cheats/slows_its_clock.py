"""13: its clock runs at a third of the speed.

Naive gain: three times the training. Stopped by the harness's own clock: a job that is late is ended. It needs a budget of seconds.
"""

from tests.edits import adding, importing

ENDS = ("timeout", "training")
CLOCK = "wall"


def cheat(text: str) -> str:
    """Every clock of Python, before anything reads one."""
    code = """
        for _name in ("time", "monotonic", "perf_counter", "process_time"):
            setattr(time, _name, lambda clock=getattr(time, _name), begun=getattr(time, _name)(): begun + (clock() - begun) / 3)
        prepare.Budget.__init__.__defaults__ = (time.monotonic,)
    """
    return adding(importing(text, "time"), code)
