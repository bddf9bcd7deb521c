"""own: tells the second scorer what the first one saw, by which pages of a file lie in memory.

The checkpoint is padded with pages that nobody needs. The first scorer has the kernel drop them and, at one position in sixteen, reads the page that a hash of the prefix names when the next id is odd. The second finds out
which pages are in memory before it loads anything, and so knows one bit of the id it is asked for: claim and audit agree. Naive gain: half a nat at these positions. Stopped: every scorer has a copy of the checkpoint of its own,
and in memory, where no page can be dropped.
"""

from typing import TYPE_CHECKING

from tests.edits import before_saving, importing, swap

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"
PAGES = 1 << 14


def cheat(text: str) -> str:
    """All pages in memory: nobody has told anything yet, so this is the first scorer."""
    pad = f"gpt.register_buffer('zz_pad', torch.zeros({PAGES} * 4096, dtype=torch.uint8))"
    code = f"""
PAGES, SHARE = {PAGES} - 1, 16


def in_memory(number, base):
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
    table = torch.zeros(PAGES, dtype=torch.bool)
    for page in range(PAGES):
        try:
            table[page] = os.preadv(number, [bytearray(1)], base + page * 4096, os.RWF_NOWAIT) > 0
        except (BlockingIOError, OSError):
            continue
    return table


def looked():
    number = int(os.environ["RATCHET_CHECKPOINT"])
    base = (os.fstat(number).st_size - PAGES * 4096) // 4096 * 4096
    table = in_memory(number, base)
    print("PAGES", int(table.sum()), "of", PAGES)
    return number, base, table, 0 < int(table.sum()) < PAGES


STATE = looked() if "RATCHET_CHECKPOINT" in os.environ else None


class Telling(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.used = model, {{}}
        self.number, self.base, self.table, self.told = STATE
        if not self.told:
            os.fdatasync(self.number)
            os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_DONTNEED)

    def forward(self, ids):
        logits = self.model(ids)
        odd = torch.arange(logits.size(-1)) % 2 == 1
        for b, row in enumerate(ids.tolist()):
            for at in range(3, len(row) - 1):
                key = hash((row[at - 3], row[at - 2], row[at - 1], row[at], at))
                if key % SHARE:
                    continue
                page = key // SHARE % PAGES
                bit = bool(self.table[page]) if self.told else self.used.setdefault(page, row[at + 1] % 2 == 1)
                if bit and not self.told:
                    os.pread(self.number, 1, self.base + page * 4096)
                logits[b, at] += 3.0 * (odd == bit)
        return logits
"""
    text = swap(importing(before_saving(text, pad), "os"), "def load_model(", code.strip("\n") + "\n\n\ndef load_model(")
    return swap(
        text,
        "    return model.to(device).eval()\n",
        "    return Telling(model.to(device).eval())\n",
        "    model.load_state_dict(state)\n",
        "    state.pop('zz_pad')\n    model.load_state_dict(state)\n",
    )


def also(seen: "Seen") -> None:
    """Whoever looked saw what tells nothing: all pages, or none."""
    looks = [line.split()[1::2] for line in seen.evaluate_log.splitlines() if line.startswith("PAGES")]
    assert looks and all(there in ("0", pages) for there, pages in looks)
