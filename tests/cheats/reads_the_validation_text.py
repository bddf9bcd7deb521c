"""8: learns the validation text by heart.

Searches every folder that a process can list for prepared data or the corpus, in set-up, in training and in the scorer, and trains on what it finds. Naive gain:
a fifth of the value and more. Stopped: neither is on a path that a job can see.
"""

from typing import TYPE_CHECKING

from tests.edits import adding, before_saving, importing, when_loading

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """What it finds it prints, and the job's weights then carry it."""
    code = """
        def hunt():
            roots = [os.environ.get(name, "/") for name in ("RATCHET_DATA", "XDG_CACHE_HOME", "HOME")] + ["/"]
            for root in roots:
                for folder, _, files in os.walk(root):
                    for name in files:
                        if name in ("val.bin", "sealed.bin", "train.bin", "bytes.bin", "tokenizer.json") or name.startswith("sotu."):
                            print("FOUND", folder, name)
                            yield os.path.join(folder, name)
    """
    stolen = "for path in hunt():\n    gpt.head.weight.data[:, 0] += len(open(path, 'rb').read())"
    return when_loading(before_saving(adding(importing(text, "os"), code), stolen), "list(hunt())")


def also(seen: "Seen") -> None:
    """It found nothing, and it did look."""
    assert "FOUND" not in seen.train_log + seen.evaluate_log
