"""Tied embeddings: the head is the table of token embeddings.

The checkpoint holds one tensor under two names.
"""

from tests.edits import swap


def honest(text: str) -> str:
    """The head's weight is the embedding's, at a scale that keeps first logits small, and only one of the two is optimised."""
    return swap(
        text,
        "        self.head = nn.Linear(DIM, vocab_size, bias=False)\n",
        "        self.head = nn.Linear(DIM, vocab_size, bias=False)\n        self.head.weight = self.embedding.weight\n",
        "        nn.init.normal_(self.head.weight, std=0.001)\n",
        "        nn.init.normal_(self.head.weight, std=0.02)\n",
        '        {"params": [model.embedding.weight], "lr": EMBEDDING_LR * scale, "weight_decay": EMBEDDING_DECAY},\n',
        "",
        "    nn.init.normal_(self.embedding.weight)\n",
        "    nn.init.normal_(self.embedding.weight, std=0.02)\n",
    )
