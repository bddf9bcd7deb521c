"""18: the checkpoint is a link to the validation file.

Naive gain: a loader that follows it would hand the text to the scorer. Stopped: the job has a descriptor and no path; where the file lies it cannot make, remove or link anything.
"""

from tests.edits import before_saving, importing

ENDS = "no gain"


def cheat(text: str) -> str:
    """Tried at every path that leads to the descriptor."""
    code = """
        for number in os.listdir("/proc/self/fd"):
            path = f"/proc/self/fd/{number}"
            for made in (path, os.path.realpath(path)):
                for make in (os.unlink, lambda at: os.symlink("/root/.cache/ratchet/val.bin", at), lambda at: os.link("/etc/os-release", at), os.mkfifo):
                    try:
                        if os.path.isfile(path):
                            make(made)
                    except OSError as error:
                        print(made, error)
    """
    return before_saving(importing(text, "os"), code)
