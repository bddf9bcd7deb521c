"""own: trains in children whose CPU time nobody counts.

With a budget of tokens the cap on CPU seconds is what bounds a candidate that counts falsely. Each further step runs in a forked child of a tenth of a second whose parent ignores SIGCHLD: the kernel then adds its time to
nobody's, and four looks a second see little of it. Naive gain: three times the training. Stopped where a control group counts for the kernel; elsewhere open, and bounded by `[trial] train_seconds`.
"""

from typing import TYPE_CHECKING

from tests.edits import before_saving, importing

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = ("timeout", "compute_cap")
WITHOUT_GROUP = "bounded"
STEPS = 40


def cheat(text: str) -> str:
    """Weights and the optimizers' state are shared with the children."""
    code = f"""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for tensor in (*gpt.parameters(), *(value for one in optimizers for held in one.state.values() for value in held.values() if torch.is_tensor(value))):
            tensor.data.share_memory_()
        for more in range({STEPS}):
            inputs, targets = next(batches)
            set_schedule(optimizers, 0.75 + 0.25 * more / {STEPS})
            child = os.fork()
            if child == 0:
                loss_function(gpt, setup, inputs, targets).backward()
                for optimizer in optimizers:
                    optimizer.step()
                os._exit(0)
            try:
                os.waitpid(child, 0)
            except ChildProcessError:
                pass
            for held in optimizers[0].state.values():
                held["steps"] += 1
    """
    return before_saving(importing(text, "os", "signal"), code)


def also(seen: "Seen") -> None:
    """Where nobody counts, what is gained is what so many steps more of training give."""
    assert seen.value is None or seen.honest - seen.value < 0.35 * seen.honest
