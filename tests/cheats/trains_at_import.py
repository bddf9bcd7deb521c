"""14: trains while it is imported, before the clock starts.

Naive gain: as many steps as fit into set-up. Stopped: no training data has arrived by then; every descriptor that is open is tried. Of a budget of tokens this would take none.
"""

from typing import TYPE_CHECKING

from tests.edits import before_training, importing

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """Whatever file of at least a million bytes it holds before the data comes it would train on."""
    code = """
        for number in os.listdir("/proc/self/fd"):
            try:
                size = os.fstat(int(number)).st_size
            except OSError:
                continue
            if size > 1_000_000:
                print("FOUND DATA", size)
                ids = torch.from_numpy(__import__("numpy").memmap(f"/proc/self/fd/{number}", dtype="<u2", mode="r")[:65536].astype("int64")).view(-1, 256)
                for some in ids.split(8):
                    loss_of(gpt, setup, some[:, :-1], some[:, 1:]).backward()
                    for optimizer in optimizers:
                        optimizer.step()
                    gpt.zero_grad(set_to_none=True)
    """
    return before_training(importing(text, "os"), code)


def also(seen: "Seen") -> None:
    """It held none."""
    assert "FOUND DATA" not in seen.train_log
