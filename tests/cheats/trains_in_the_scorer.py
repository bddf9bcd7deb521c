"""25: trains on in the scorer, on training data that it stored in its checkpoint.

Both scorers do the same, so claim and audit agree. Naive gain: the steps that fit into loading. Open and bounded: loading may take twice the baseline's CPU time and a little more.
"""

from typing import TYPE_CHECKING

from tests.edits import before_saving, swap

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
STEPS = 12


def cheat(text: str) -> str:
    """A dozen more steps at a small rate."""
    keep = f"gpt.register_buffer('stored', torch.cat([torch.cat((x, y[:, -1:]), dim=1) for x, y in (next(batches) for _ in range({STEPS}))]).to(torch.int32))"
    more = """
    stored = state.pop("stored").long()
    model = GPT(vocab_size=state["embedding.weight"].size(0), sparse=True)
    model.load_state_dict(state)
    setup = prepare.Setup("cpu", device, model.embedding.num_embeddings, 256, 0, 1, "float32")
    optimizers = build_optimizers(model)
    with torch.inference_mode(False), torch.enable_grad():
        for rows in stored.split(DEVICE_ROWS):
            set_schedule(optimizers, 0.95)
            loss_of(model, setup, rows[:, :-1], rows[:, 1:]).backward()
            for optimizer in optimizers:
                optimizer.step()
            for p in model.parameters():
                p.grad = None
"""
    old = '    model = GPT(vocab_size=state["embedding.weight"].size(0))\n    model.load_state_dict(state)\n'
    return swap(before_saving(text, keep), old, more.lstrip("\n"))


def also(seen: "Seen") -> None:
    """What it may use is bounded by the scorer's time, and what it gains by what a dozen steps more of training give."""
    assert seen.value is None or seen.honest - seen.value < 0.35 * seen.honest
