"""own: trains on in the scorer when it is asked for the first time, not while it loads.

Both scorers do the same, so claim and audit agree, and loading is quick. Naive gain: as many steps as fit into scoring. Stopped: the whole time of
both scorers is held against the baseline's, not loading alone.
"""

from tests.edits import adding, before_saving, swap

ENDS = ("invalid", "scorer_time")
STEPS = 90


def cheat(text: str) -> str:
    """Some ninety more steps, in a wrapper that spends them at its first call."""
    keep = f"gpt.register_buffer('stored', torch.cat([torch.cat((x, y[:, -1:]), dim=1) for x, y in (next(batches) for _ in range({STEPS}))]).to(torch.int32))"
    code = """
class Lazy(nn.Module):
    def __init__(self, model, rows):
        super().__init__()
        self.model, self.rows = model, rows

    def forward(self, ids):
        if self.rows is not None:
            rows, self.rows = self.rows, None
            setup = prepare.Setup("cpu", "cpu", self.model.embedding.num_embeddings, 256, 0, 1, "float32")
            optimizers = build_optimizers(self.model)
            with torch.inference_mode(False), torch.enable_grad():
                parts = rows.split(DEVICE_ROWS)
                for n, part in enumerate(parts):
                    set_schedule(optimizers, 0.5 + 0.5 * n / len(parts))
                    loss_of(self.model, setup, part[:, :-1].clone(), part[:, 1:].clone()).backward()
                    for optimizer in optimizers:
                        optimizer.step()
                    for p in self.model.parameters():
                        p.grad = None
        return self.model(ids)
"""
    old = '    model = GPT(vocab_size=state["embedding.weight"].size(0))\n    model.load_state_dict(state)\n'
    new = '    rows = state.pop("stored").long()\n    model = GPT(vocab_size=state["embedding.weight"].size(0), sparse=True)\n    model.load_state_dict(state)\n    return Lazy(model, rows)\n'
    return swap(adding(before_saving(text, keep), code), old, new)
