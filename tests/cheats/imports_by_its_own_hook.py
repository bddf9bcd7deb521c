"""own: an import hook that hands out its own modules.

Puts itself before every finder and replaces `prepare`, numpy's loader and the socket in `sys.modules`. Naive gain: any number, if a part of the evaluation that is imported late came from it.
Stopped: the trusted process imports nothing of the candidate's.
"""

from tests.edits import adding, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """In the job and in the scorer."""
    code = """
        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name.startswith(("prepare", "harness", "numpy.lib")):
                    print("HOOKED", name)
                return None

        sys.meta_path.insert(0, Finder)
        false = types.ModuleType("prepare")
        vars(false).update(vars(prepare), METRIC="val_bpb", score=lambda *given: {"value": 0.5}, evaluate=lambda *given: None)
        sys.modules["prepare"] = false
        sys.modules["harness"] = types.ModuleType("harness")
    """
    return adding(importing(text, "sys", "types"), code)
