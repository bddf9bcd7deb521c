"""23: a vocabulary of its own.

Answers for sixteen classes of ids instead of 2,048 ids, and lets the loss look up the class. Naive gain: at most log 16 nats an id. Stopped by the audit: the ids are the
harness's, and an answer that is not one number an id is refused.
"""

from tests.edits import adding, answering

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Classes by the remainder."""
    kind = """
        class Coarse(Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if function is F.cross_entropy:
                    return F.cross_entropy(args[0].as_subclass(Tensor), args[1] % 16, **(kwargs or {}))
                return super().__torch_function__(function, types, args, kwargs or {})
    """
    body = "return torch.stack([logits[..., first::16].logsumexp(-1) for first in range(16)], dim=-1).as_subclass(Coarse)"
    return answering(adding(text, kind), body)
