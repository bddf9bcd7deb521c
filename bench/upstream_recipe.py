"""Upstream's recipe at the size of the CPU profile, our own port of it: what bench/training.py compares train.py with.

Muon and AdamW, ReLU^2, value embeddings, residual and shortcut weights, capped logits; its constants as measured best at this size. It keeps the
contract of train.py and is frozen: tests of duplicates and near repeats also read it as a program of a known text.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import prepare

# Model
DEPTH = 2  # transformer blocks
DIM = 128  # width of the residual stream
HEAD_DIM = 64  # width of an attention head; DIM / HEAD_DIM heads
MLP_RATIO = 4  # hidden width of the MLP over DIM
ROPE_BASE = 10000.0  # longest wavelength of the rotary positions, in tokens over 2 pi
LOGIT_CAP = 15.0  # logits are squashed into +- this
VALUE_EMBEDDING_EVERY = 2  # every so many blocks, from the last one back, add a token embedding to their values
VALUE_GATE_DIM = 32  # channels of the stream that gate the value embedding
RESIDUAL_INIT = 1.0  # initial weight of the stream at the entry of a block
SHORTCUT_INIT = 0.1  # initial weight of the token embedding at the entry of a block

# Batch
TOTAL_BATCH = 2048  # tokens in one optimizer step
DEVICE_ROWS = 8  # most rows in one forward pass; a larger batch is accumulated over several

# Optimizers
MATRIX_LR = 0.04  # Muon: matrices inside the blocks
MUON_MOMENTUM = 0.95  # Nesterov momentum of Muon
MUON_ITERATIONS = 5  # Newton-Schulz steps that orthogonalise an update
WEIGHT_DECAY = 0.1  # of Muon; falls to 0 with the budget
EMBEDDING_LR = 0.6  # AdamW: token and value embeddings, x (DIM / 768)^-0.5
HEAD_LR = 0.004  # AdamW: output head, x (DIM / 768)^-0.5
SCALAR_LR = 0.5  # AdamW: shortcut weights, x (DIM / 768)^-0.5; residual weights take a hundredth of it
ADAM_BETA1 = 0.8  # AdamW: memory of the mean
ADAM_BETA2 = 0.95  # AdamW: memory of the variance
ADAM_EPS = 1e-10  # AdamW: floor of the deviation

# Schedule
WARMUP = 0.0  # share of the budget in which the rates rise from 0
WARMDOWN = 0.5  # share of the budget in which the rates fall, at the end
FINAL_LR = 0.0  # share of the rates that is left at the very end

COMPILE_ON = ("cuda",)  # devices on which the model is compiled; on a CPU it pays for runs above five minutes only


# ------------------------------------------------------------------------------------------------------------ model


def norm(x: Tensor) -> Tensor:
    """Root-mean-square norm over the last axis, without weights."""
    return F.rms_norm(x, (x.size(-1),))


def rotary(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, (length, HEAD_DIM / 2) each."""
    wavelengths = ROPE_BASE ** (torch.arange(0, HEAD_DIM, 2, dtype=torch.float32, device=device) / HEAD_DIM)
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None] / wavelengths
    return angles.cos(), angles.sin()


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs (i, i + HEAD_DIM / 2) of x (B, heads, T, HEAD_DIM) by their position's angles."""
    cos, sin = angles[0].to(x.dtype), angles[1].to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


class Attention(nn.Module):
    """Causal self-attention with normed queries and keys and, in some blocks, token embeddings added to the values."""

    def __init__(self, with_value_embedding: bool) -> None:
        super().__init__()
        self.query = nn.Linear(DIM, DIM, bias=False)
        self.key = nn.Linear(DIM, DIM, bias=False)
        self.value = nn.Linear(DIM, DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(VALUE_GATE_DIM, DIM // HEAD_DIM, bias=False) if with_value_embedding else None

    def forward(self, x: Tensor, extra: Tensor | None, angles: tuple[Tensor, Tensor]) -> Tensor:
        shape = (*x.shape[:2], DIM // HEAD_DIM, HEAD_DIM)
        query, key, value = (layer(x).view(shape) for layer in (self.query, self.key, self.value))
        if self.gate is not None and extra is not None:
            gate = 2 * torch.sigmoid(self.gate(x[..., :VALUE_GATE_DIM]))  # one number a head, 1 at the start
            value = value + gate[..., None] * extra.view(shape)
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        query, key = norm(rotate(query, angles)), norm(rotate(key, angles))
        mixed = F.scaled_dot_product_attention(query, key, value.to(query.dtype), is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class MLP(nn.Module):
    """Two layers with a squared ReLU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(DIM, MLP_RATIO * DIM, bias=False)
        self.down = nn.Linear(MLP_RATIO * DIM, DIM, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x)).square())


class Block(nn.Module):
    """Attention, then MLP, each on the normed stream and added to it."""

    def __init__(self, with_value_embedding: bool) -> None:
        super().__init__()
        self.attention = Attention(with_value_embedding)
        self.mlp = MLP()

    def forward(self, x: Tensor, extra: Tensor | None, angles: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attention(norm(x), extra, angles)
        return x + self.mlp(norm(x))


class GPT(nn.Module):
    """Token ids (B, T) to logits (B, T, vocabulary)."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        special = [(DEPTH - 1 - i) % VALUE_EMBEDDING_EVERY == 0 for i in range(DEPTH)]
        self.embedding = nn.Embedding(vocab_size, DIM)
        tables = {str(i): nn.Embedding(vocab_size, DIM) for i in range(DEPTH) if special[i]}
        self.value_embeddings = nn.ModuleDict(tables)
        self.blocks = nn.ModuleList(Block(with_value_embedding) for with_value_embedding in special)
        self.head = nn.Linear(DIM, vocab_size, bias=False)
        self.residual = nn.Parameter(torch.full((DEPTH,), RESIDUAL_INIT))
        self.shortcut = nn.Parameter(torch.full((DEPTH,), SHORTCUT_INIT))

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw the weights: whatever writes into the stream starts at zero, so every block starts as the identity."""
        bound = math.sqrt(3 / DIM)
        nn.init.normal_(self.embedding.weight)
        nn.init.normal_(self.head.weight, std=0.001)
        for table in self.value_embeddings.values():
            nn.init.uniform_(table.weight, -bound, bound)
        for block in self.blocks:
            attention = block.attention
            for layer in (attention.query, attention.key, attention.value, block.mlp.up):
                nn.init.uniform_(layer.weight, -bound, bound)
            for layer in (attention.out, block.mlp.down, attention.gate):
                if layer is not None:
                    nn.init.zeros_(layer.weight)

    def forward(self, ids: Tensor) -> Tensor:
        angles = rotary(ids.size(1), ids.device)
        x = first = norm(self.embedding(ids))
        for i, block in enumerate(self.blocks):
            extra = self.value_embeddings[str(i)](ids) if str(i) in self.value_embeddings else None
            x = block(self.residual[i] * x + self.shortcut[i] * first, extra, angles)
        return LOGIT_CAP * torch.tanh(self.head(norm(x)).float() / LOGIT_CAP)


def load_model(state: dict[str, Tensor], device: str) -> nn.Module:
    """A checkpoint's weights as a model in evaluation mode: ids (B, T) int64 to logits (B, T, V)."""
    model = GPT(vocab_size=state["embedding.weight"].size(0))
    model.load_state_dict(state)
    return model.to(device).eval()


# ------------------------------------------------------------------------------------------------------- optimizers


def orthogonalise(update: Tensor) -> Tensor:
    """The nearest matrix with all singular values near 1, for a stack (n, rows, columns), by Newton-Schulz steps."""
    x = update.bfloat16() if update.is_cuda else update
    tall = x.size(1) > x.size(2)
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(MUON_ITERATIONS):  # an odd polynomial: lifts small singular values fast, keeps large ones near 1
        gram = x @ x.mT
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(update.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose step is orthogonalised; equally shaped matrices are handled as one stack."""

    def __init__(self, matrices: list[nn.Parameter], lr: float) -> None:
        groups = [{"params": [p for p in matrices if p.shape == s]} for s in sorted({p.shape for p in matrices})]
        super().__init__(groups, {"lr": lr, "weight_decay": WEIGHT_DECAY})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            updates = []
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 1 - MUON_MOMENTUM)
                updates.append(p.grad.lerp(momentum, MUON_MOMENTUM))
            rows, columns = group["params"][0].shape
            lr = group["lr"] * max(1.0, rows / columns) ** 0.5
            for p, step in zip(group["params"], orthogonalise(torch.stack(updates)), strict=True):
                decay = group["weight_decay"] * p * (step * p > 0)  # only where it agrees with the step
                p.sub_(lr * (step + decay))


def build_optimizers(model: GPT) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for everything else."""
    scale = (DIM / 768) ** -0.5
    embeddings = [model.embedding.weight, *(table.weight for table in model.value_embeddings.values())]
    groups = [
        {"params": embeddings, "lr": EMBEDDING_LR * scale},
        {"params": [model.head.weight], "lr": HEAD_LR * scale},
        {"params": [model.shortcut], "lr": SCALAR_LR * scale},
        {"params": [model.residual], "lr": SCALAR_LR * scale * 0.01},
    ]
    betas = (ADAM_BETA1, ADAM_BETA2)
    adam = torch.optim.AdamW(groups, betas=betas, eps=ADAM_EPS, weight_decay=0.0, fused=True)
    optimizers = [adam, Muon(list(model.blocks.parameters()), lr=MATRIX_LR)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def set_schedule(optimizers: list[torch.optim.Optimizer], progress: float) -> None:
    """Set rates and decay for a share of the budget: up during WARMUP, constant, down to FINAL_LR during WARMDOWN."""
    up = progress / WARMUP if progress < WARMUP else 1.0
    left = (1 - progress) / WARMDOWN if progress > 1 - WARMDOWN else 1.0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * up * (FINAL_LR + (1 - FINAL_LR) * left)
            if isinstance(optimizer, Muon):
                group["weight_decay"] = WEIGHT_DECAY * (1 - progress)


# --------------------------------------------------------------------------------------------------------- training


def loss_of(model: nn.Module, setup: prepare.Setup, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of the next tokens."""
    with setup.precision():
        logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    setup = prepare.setup()
    rows = min(DEVICE_ROWS, TOTAL_BATCH // setup.context)
    passes = TOTAL_BATCH // max(rows * setup.context, 1)
    assert passes * rows * setup.context == TOTAL_BATCH > 0, (
        f"TOTAL_BATCH {TOTAL_BATCH} is no positive multiple of {max(rows, 1)} rows of {setup.context} tokens"
    )
    assert DIM % HEAD_DIM == 0, f"DIM {DIM} is no multiple of HEAD_DIM {HEAD_DIM}"

    gpt = GPT(setup.vocab_size)
    gpt.initialise()
    gpt.to(setup.device)
    optimizers = build_optimizers(gpt)
    model = torch.compile(gpt, dynamic=False) if setup.device in COMPILE_ON else gpt

    # One pass on random ids before the clock starts: it compiles and warms up, and leaves no trace in the weights.
    ids = torch.randint(setup.vocab_size, (rows, setup.context + 1), device=setup.device)
    loss_of(model, setup, ids[:, :-1], ids[:, 1:]).backward()
    gpt.zero_grad(set_to_none=True)

    training = prepare.open_training()
    batches = training.batches(rows)
    step = 0
    while not training.budget.done:
        set_schedule(optimizers, training.budget.progress())
        total = torch.zeros((), device=setup.device)
        for _ in range(passes):
            loss = loss_of(model, setup, *next(batches)) / passes
            loss.backward()
            total += loss.detach()
        for optimizer in optimizers:
            optimizer.step()
        gpt.zero_grad(set_to_none=True)
        step += 1
        mean = total.item()
        prepare.record(step=step, loss=mean)
        if not math.isfinite(mean):
            raise SystemExit(f"the loss is {mean} at step {step}: training stops")
    prepare.save_checkpoint(gpt, steps=step, depth=DEPTH)


if __name__ == "__main__":
    main()
