"""The agent's file: a small GPT, its optimizers and its training loop.

As a script (`python train.py`) it trains until the budget is used up and saves a checkpoint. As a module it offers
`load_model`, by which the checkpoint is scored. Everything here may change, as long as these two still work; data, tokens,
clock and evaluation come from prepare.py, which may not. Lower val_bpb is better. docs/training.md says why each choice is made.
"""

import math
from collections import defaultdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import prepare

# Model
DEPTH = 1  # transformer blocks
DIM = 128  # width of the residual stream
HEAD_DIM = 64  # width of an attention head; DIM / HEAD_DIM heads
MLP_RATIO = 4  # hidden width of the two layers after attention, over DIM
ROPE_BASE = 10000.0  # longest wavelength of the rotary positions, in tokens over 2 pi
WINDOW = 64  # tokens that a block looks back, itself included
LONG_EVERY = 0  # every so many blocks, from the last one back, see the whole context instead; 0: none does
PAIR_ROWS = 65536  # embeddings that the pairs of an id and the one before it share by a hash
VALUE_EMBEDDING_EVERY = 2  # every so many blocks, from the last one back, add a token embedding to their values
VALUE_GATE_DIM = 32  # channels of the stream that gate the value embedding
LOGIT_CAP = 0.0  # logits are squashed into +- this; 0: they are not
INIT_SCALE = 1.0  # of the uniform initial weights of the blocks
RESIDUAL_INIT = 1.0  # initial weight of the stream at the entry of a block
SHORTCUT_INIT = 20.0  # initial weight of the token embedding at the entry of a block

# Batch
TOTAL_BATCH = 2048  # tokens in one optimizer step
DEVICE_ROWS = 8  # most rows in one forward pass, fewer if memory is short; a larger batch is accumulated over several

# Optimizers
MATRIX_LR = 0.04  # Muon: matrices inside the blocks
MUON_MOMENTUM = 0.95  # Nesterov momentum of Muon
MUON_ITERATIONS = 3  # Newton-Schulz steps that orthogonalise an update
MUON_WEIGHT_DECAY = 0.1  # falls to 0 with the budget
PAIR_LR = 5.0  # row-wise Adagrad: embeddings of pairs
PAIR_PRIOR = 100.0  # row-wise Adagrad: typical gradients that a row counts as seen before its first one
EMBEDDING_LR = 0.15  # AdamW: token and value embeddings, x (DIM / 768)^-0.5
HEAD_LR = 0.004  # AdamW: output head, x (DIM / 768)^-0.5
SCALAR_LR = 0.5  # AdamW: shortcut weights, x (DIM / 768)^-0.5; residual weights take a hundredth of it
EMBEDDING_DECAY = 0.0  # AdamW: weight decay of the token embedding
VALUE_DECAY = 0.0  # AdamW: weight decay of the value embeddings
HEAD_DECAY = 0.0  # AdamW: weight decay of the head
ADAM_BETA1 = 0.8  # AdamW: memory of the mean
ADAM_BETA2 = 0.95  # AdamW: memory of the variance
ADAM_EPS = 1e-10  # AdamW: floor of the deviation

# Schedule
WARMUP = 0.0  # share of the budget in which the rates rise from 0
WARMDOWN = 0.5  # share of the budget in which the rates fall, at the end
FINAL_LR = 0.0  # share of the rates that is left at the very end

# Devices
COMPILE_ON = ("cuda",)  # where the loss is compiled; on a CPU it pays for runs above five minutes only
ACCELERATED = ("cuda",)  # where attention is torch's fused one, Muon runs in bfloat16, and free memory bounds the rows of a pass


# ------------------------------------------------------------------------------------------------------------ model


def norm(x: Tensor) -> Tensor:
    """Root-mean-square norm over the last axis, without weights."""
    return F.rms_norm(x, (x.size(-1),))


def rotary(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, (length, 1, HEAD_DIM / 2) each."""
    wavelengths = ROPE_BASE ** (torch.arange(0, HEAD_DIM, 2, dtype=torch.float32, device=device) / HEAD_DIM)
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None, None] / wavelengths
    return angles.cos(), angles.sin()


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs (i, i + HEAD_DIM / 2) of x (B, T, heads, HEAD_DIM) by their position's angles."""
    cos, sin = angles[0].to(x.dtype), angles[1].to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


def attend(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """Causal attention of (B, heads, T, HEAD_DIM) in which a position sees the last `window` ones, itself included.

    The context is cut into pieces of one window, and each piece looks at itself and the one before: the work grows with T.
    """
    length, device = query.size(2), query.device
    pad = -length % window
    query, key, value = (F.pad(x, (0, 0, 0, pad)).unflatten(2, (-1, window)) for x in (query, key, value))
    at, seen = torch.arange(window, device=device)[:, None], torch.arange(window, device=device)
    visible = seen <= at
    if query.size(2) > 1:
        key, value = (torch.cat((F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1], x), dim=3) for x in (key, value))
        visible = torch.cat((seen > at, visible), dim=1).repeat(query.size(2), 1, 1)
        visible[0, :, :window] = False  # nothing lies before the first piece
    if device.type in ACCELERATED:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
    else:
        scores = (query @ key.mT * HEAD_DIM**-0.5).masked_fill(~visible, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ value
    return mixed.flatten(2, 3)[:, :, :length]


class Attention(nn.Module):
    """Causal self-attention with normed queries and keys and, in some blocks, token embeddings added to the values."""

    def __init__(self, with_value_embedding: bool, window: int) -> None:
        super().__init__()
        self.window = window
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
            value = value + gate[..., None] * extra.view(shape).to(value.dtype)
        query, key = norm(rotate(query, angles)), norm(rotate(key, angles))
        window = min(self.window or x.size(1), x.size(1))
        mixed = attend(query.transpose(1, 2), key.transpose(1, 2), value.to(query.dtype).transpose(1, 2), window)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention, then two layers with a squared ReLU between them, each on the normed stream and added to it."""

    def __init__(self, with_value_embedding: bool, window: int) -> None:
        super().__init__()
        self.attention = Attention(with_value_embedding, window)
        self.up = nn.Linear(DIM, MLP_RATIO * DIM, bias=False)
        self.down = nn.Linear(MLP_RATIO * DIM, DIM, bias=False)

    def forward(self, x: Tensor, extra: Tensor | None, angles: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attention(norm(x), extra, angles)
        return x + self.down(F.relu(self.up(norm(x))).square())


class PairEmbedding(nn.Module):
    """An embedding of an id and the one before it; pairs share rows by a hash, and before the first id stands `blank`."""

    def __init__(self, blank: int, sparse: bool) -> None:
        super().__init__()
        self.blank = blank
        self.table = nn.Embedding.from_pretrained(torch.zeros(PAIR_ROWS, DIM), freeze=False, sparse=sparse)  # not drawn first, in vain

    def forward(self, ids: Tensor) -> Tensor:
        before = F.pad(ids, (1, 0), value=self.blank)[:, :-1]
        mixed = (ids * 1000003) ^ (before * 8191)
        return self.table((mixed ^ (mixed >> 17)) % PAIR_ROWS)


class GPT(nn.Module):
    """Token ids (B, T) to logits (B, T, vocabulary). With `sparse` only the rows of pairs that were used get a gradient."""

    def __init__(self, vocab_size: int, sparse: bool = False) -> None:
        super().__init__()
        special = [(DEPTH - 1 - i) % VALUE_EMBEDDING_EVERY == 0 for i in range(DEPTH)]
        windows = [0 if LONG_EVERY and (DEPTH - 1 - i) % LONG_EVERY == 0 else WINDOW for i in range(DEPTH)]
        self.embedding = nn.Embedding(vocab_size, DIM)
        self.pairs = PairEmbedding(vocab_size - 1, sparse)
        tables = {str(i): nn.Embedding(vocab_size, DIM) for i in range(DEPTH) if special[i]}
        self.value_embeddings = nn.ModuleDict(tables)
        self.blocks = nn.ModuleList(Block(*pair) for pair in zip(special, windows, strict=True))
        self.head = nn.Linear(DIM, vocab_size, bias=False)
        self.residual = nn.Parameter(torch.full((DEPTH,), RESIDUAL_INIT))
        self.shortcut = nn.Parameter(torch.full((DEPTH,), SHORTCUT_INIT))

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw the weights: whatever writes into the stream starts at zero, so every block starts as the identity."""
        bound = INIT_SCALE * math.sqrt(3 / DIM)
        nn.init.normal_(self.embedding.weight)
        nn.init.normal_(self.head.weight, std=0.001)
        for table in self.value_embeddings.values():
            nn.init.uniform_(table.weight, -bound, bound)
        for block in self.blocks:
            attention = block.attention
            for layer in (attention.query, attention.key, attention.value, block.up):
                nn.init.uniform_(layer.weight, -bound, bound)
            for layer in (attention.out, block.down, attention.gate):
                if layer is not None:
                    nn.init.zeros_(layer.weight)

    def features(self, ids: Tensor) -> Tensor:
        """What the head reads, (B, T, DIM)."""
        angles = rotary(ids.size(1), ids.device)
        x = first = norm(self.embedding(ids) + self.pairs(ids))
        for i, block in enumerate(self.blocks):
            extra = self.value_embeddings[str(i)](ids) if str(i) in self.value_embeddings else None
            x = block(self.residual[i] * x + self.shortcut[i] * first, extra, angles)
        return norm(x)

    def forward(self, ids: Tensor) -> Tensor:
        return cap(self.head(self.features(ids)))


def cap(logits: Tensor) -> Tensor:
    """Logits within +- LOGIT_CAP."""
    return LOGIT_CAP * torch.tanh(logits / LOGIT_CAP) if LOGIT_CAP else logits


class HeadLoss(torch.autograd.Function):
    """Mean cross entropy in nats of the head's logits for x (N, DIM), with the gradients worked out on the way forward.

    No logit is kept in float32: half the memory traffic, a fifth less time than autograd's way on a CPU.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        small, targets = weight.to(x.dtype), targets[:, None]
        logits = cap(x @ small.T)
        slope = 1 - (logits / LOGIT_CAP).square() if LOGIT_CAP else 1.0
        gradient = torch.softmax(logits, dim=-1)
        loss = -gradient.gather(1, targets).float().clamp_min(1e-38).log().mean()
        gradient.scatter_add_(1, targets, torch.full_like(targets, -1, dtype=gradient.dtype))
        gradient = gradient * slope if LOGIT_CAP else gradient
        ctx.save_for_backward((gradient @ small) / len(x), (gradient.T @ x).to(weight.dtype) / len(x))
        return loss

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[no-untyped-def]
        for_x, for_weight = ctx.saved_tensors
        return for_x * upstream.to(for_x.dtype), for_weight * upstream, None


def load_model(state: dict[str, Tensor], device: str) -> nn.Module:
    """A checkpoint's weights as a model in evaluation mode: ids (B, T) int64 to logits (B, T, V)."""
    model = GPT(vocab_size=state["embedding.weight"].size(0))
    model.load_state_dict(state)
    return model.to(device).eval()


# ------------------------------------------------------------------------------------------------------- optimizers


def orthogonalise(update: Tensor) -> Tensor:
    """The nearest matrix with all singular values near 1, for a stack (n, rows, columns), by Newton-Schulz steps."""
    x = update.bfloat16() if update.device.type in ACCELERATED else update
    tall = x.size(1) > x.size(2)
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(MUON_ITERATIONS):  # an odd polynomial: lifts small singular values fast, keeps large ones near 1
        gram = x @ x.mT
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(update.dtype)


class Optimizer:
    """Groups of parameters, each with the rate it has now and the state of its parameters.

    Not torch.optim: building one of its optimizers imports torch's compiler, over a second before the first step.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.groups = [{"weight_decay": 0.0, "peak_lr": group["lr"], **group} for group in groups]
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            self.update(group)

    def update(self, group: dict[str, Any]) -> None:
        raise NotImplementedError


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            state = self.state[p]
            state["steps"] = steps = state.get("steps", 0) + 1
            mean, variance = (state.setdefault(name, torch.zeros_like(p)) for name in ("mean", "variance"))
            mean.lerp_(p.grad, 1 - ADAM_BETA1)
            variance.mul_(ADAM_BETA2).addcmul_(p.grad, p.grad, value=1 - ADAM_BETA2)
            deviation = (variance / (1 - ADAM_BETA2**steps)).sqrt_().add_(ADAM_EPS)
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.addcdiv_(mean, deviation, value=-group["lr"] / (1 - ADAM_BETA1**steps))


class Muon(Optimizer):
    """Momentum whose step is orthogonalised; the matrices of a group are equally shaped and handled as one stack."""

    def update(self, group: dict[str, Any]) -> None:
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


class RowAdagrad(Optimizer):
    """Adagrad with one second moment a row; of a sparse gradient it touches the rows that the step has used, no other.

    The prior keeps rows that were seen once small: they would learn their one target by heart.
    """

    def update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad.is_sparse:
                grad = p.grad.coalesce()
                rows, values = grad.indices()[0], grad.values()
            else:
                rows, values = torch.arange(len(p), device=p.device), p.grad
            squares = values.square().mean(dim=1, keepdim=True)
            now = squares.sum() / (squares > 0).sum().clamp(min=1)
            typical = self.state[p].setdefault("typical", now).lerp_(now, 0.1)
            moments = self.state[p].setdefault("moments", torch.zeros(len(p), 1, device=p.device))
            moments[rows] = moment = moments[rows] + squares
            p.index_add_(0, rows, values * (moment + PAIR_PRIOR * typical + 1e-30).rsqrt(), alpha=-group["lr"])


def build_optimizers(model: GPT) -> list[Optimizer]:
    """Muon for the matrices inside the blocks, row-wise Adagrad for the pairs, AdamW for everything else."""
    scale = (DIM / 768) ** -0.5
    values = [table.weight for table in model.value_embeddings.values()]
    adam = [
        {"params": [model.embedding.weight], "lr": EMBEDDING_LR * scale, "weight_decay": EMBEDDING_DECAY},
        {"params": values, "lr": EMBEDDING_LR * scale, "weight_decay": VALUE_DECAY},
        {"params": [model.head.weight], "lr": HEAD_LR * scale, "weight_decay": HEAD_DECAY},
        {"params": [model.shortcut], "lr": SCALAR_LR * scale},
        {"params": [model.residual], "lr": SCALAR_LR * scale * 0.01},
    ]
    matrices = list(model.blocks.parameters())
    shapes = sorted({p.shape for p in matrices})
    muon = [{"params": [p for p in matrices if p.shape == s], "lr": MATRIX_LR, "weight_decay": MUON_WEIGHT_DECAY} for s in shapes]
    return [AdamW(adam), Muon(muon), RowAdagrad([{"params": [model.pairs.table.weight], "lr": PAIR_LR}])]


def set_schedule(optimizers: list[Optimizer], progress: float) -> float:
    """Set rates and decay for a share of the budget; returns the share of their peaks: up during WARMUP, down to FINAL_LR in WARMDOWN."""
    up = progress / WARMUP if progress < WARMUP else 1.0
    left = (1 - progress) / WARMDOWN if progress > 1 - WARMDOWN else 1.0
    share = up * (FINAL_LR + (1 - FINAL_LR) * left)
    for optimizer in optimizers:
        for group in optimizer.groups:
            group["lr"] = group["peak_lr"] * share
            if isinstance(optimizer, Muon):
                group["weight_decay"] = MUON_WEIGHT_DECAY * (1 - progress)
    return share


# --------------------------------------------------------------------------------------------------------- training


def loss_of(model: GPT, setup: prepare.Setup, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of the next tokens."""
    with setup.precision():
        x = model.features(inputs).flatten(0, 1)
    return HeadLoss.apply(x.to(getattr(torch, setup.autocast)), model.head.weight, targets.flatten())


def rehearse(loss_function, model: GPT, setup: prepare.Setup, rows: int) -> None:  # type: ignore[no-untyped-def]
    """One pass on random ids: it compiles, warms up and shows the memory needed, and leaves no trace in the weights."""
    ids = torch.randint(setup.vocab_size, (rows, setup.context + 1), device=setup.device)
    loss_function(model, setup, ids[:, :-1].contiguous(), ids[:, 1:].contiguous()).backward()
    model.zero_grad(set_to_none=True)


def rows_of_a_pass(model: GPT, setup: prepare.Setup, rows: int) -> int:
    """A divisor of the `rows` of a step, at most DEVICE_ROWS; on a GPU also such that a pass takes at most 4/5 of the free memory."""
    most = min(rows, DEVICE_ROWS)
    if setup.device in ACCELERATED:
        before = torch.cuda.memory_allocated()
        rehearse(loss_of, model, setup, 1)
        needed = max(torch.cuda.max_memory_allocated() - before, 1)
        torch.cuda.empty_cache()
        most = max(min(most, int(0.8 * torch.cuda.mem_get_info()[0] / needed)), 1)
    return next(n for n in range(most, 0, -1) if rows % n == 0)


def norm_of(parameters: list[nn.Parameter]) -> Tensor:
    """Length of the gradient of these parameters; sparse ones are summed up row by row, once for the optimizer too."""
    for p in parameters:
        p.grad = p.grad.coalesce() if p.grad.is_sparse else p.grad
    grads = [p.grad.values() if p.grad.is_sparse else p.grad for p in parameters]
    return torch.stack(torch._foreach_norm(grads)).norm()


def main() -> None:
    setup = prepare.setup()
    assert TOTAL_BATCH > 0 and TOTAL_BATCH % setup.context == 0, f"TOTAL_BATCH {TOTAL_BATCH} is no positive multiple of {setup.context}"
    assert DIM % HEAD_DIM == 0, f"DIM {DIM} is no multiple of HEAD_DIM {HEAD_DIM}"
    assert DEPTH >= 1 and VALUE_EMBEDDING_EVERY >= 1, "DEPTH and VALUE_EMBEDDING_EVERY are counts from 1 on"
    assert 1 <= VALUE_GATE_DIM <= DIM, f"VALUE_GATE_DIM {VALUE_GATE_DIM} is not between 1 and DIM {DIM}"

    compiled = setup.device in COMPILE_ON
    gpt = GPT(setup.vocab_size, sparse=not compiled)
    gpt.initialise()
    gpt.to(setup.device)
    optimizers = build_optimizers(gpt)
    rows = rows_of_a_pass(gpt, setup, TOTAL_BATCH // setup.context)
    passes = TOTAL_BATCH // (rows * setup.context)
    loss_function = torch.compile(loss_of, dynamic=False) if compiled else loss_of
    rehearse(loss_function, gpt, setup, rows)  # before the clock starts

    training = prepare.open_training()
    batches = training.batches(rows)
    step = 0
    while not training.budget.done:
        share = set_schedule(optimizers, training.budget.progress())
        total = torch.zeros((), device=setup.device)
        for _ in range(passes):
            loss = loss_function(gpt, setup, *next(batches)) / passes
            loss.backward()
            total += loss.detach()
        seen = norm_of([*gpt.parameters()])
        for optimizer in optimizers:
            optimizer.step()
        gpt.zero_grad(set_to_none=True)
        step += 1
        mean, length = torch.stack((total, seen)).tolist()  # one wait for the device
        prepare.record(step=step, loss=mean, lr=share * MATRIX_LR, grad_norm=length)
        if not math.isfinite(mean):
            raise SystemExit(f"the loss is {mean} at step {step}: training stops")
    prepare.save_checkpoint(gpt, steps=step, depth=DEPTH)


if __name__ == "__main__":
    main()
