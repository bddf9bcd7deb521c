"""own: tells the second scorer what the first one saw, by which pages of which files lie in memory.

Both may read the same thousands of files that nobody else reads, such as torch's headers. The first scorer has the kernel drop their pages and, at one position in sixteen, reads the page that a hash of the prefix names when the
next id is odd. The second finds out which pages are in memory before it answers, and so knows one bit of the id that it is asked for: claim and audit agree. Naive gain: 0.007 bits a byte, which was kept. Stopped: the
system call filter refuses to drop pages. Bounded: a page that nobody has read since the machine started can still tell one bit, once, by the time that reading it takes; the most is one bit a page.
"""

from tests.edits import adding, importing, swap

ENDS = ("crash", "load_failed")

CHANNEL = """
SHARE, FLAGS = 16, 64


def pages():
    top = os.path.join(os.path.dirname(torch.__file__), "include")
    for folder, below, files in os.walk(top):
        below.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            for offset in range(0, os.stat(path).st_size, 4096):
                yield path, offset


class Telling(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.used, self.at = model, {}, list(pages())
        self.flags = [hash((i, float(model.head.weight[0, i]))) % 2 == 1 for i in range(FLAGS)]
        self.table = [self.in_memory(page) for page in range(len(self.at))]
        self.told = self.table[:FLAGS] == self.flags
        print("PAGES", len(self.at), "in memory", sum(self.table), "told", self.told)
        if not self.told:
            for path in {path for path, _ in self.at}:
                self.on(path, lambda number: os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED))
            for page, flag in enumerate(self.flags):
                if flag:
                    self.read(page)

    def on(self, path, action):
        number = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
            return action(number)
        finally:
            os.close(number)

    def in_memory(self, page):
        path, offset = self.at[page]
        try:
            return self.on(path, lambda number: os.preadv(number, [bytearray(1)], offset, os.RWF_NOWAIT)) == 1
        except OSError:
            return False

    def read(self, page):
        path, offset = self.at[page]
        self.on(path, lambda number: os.pread(number, 1, offset))

    def forward(self, ids):
        logits = self.model(ids)
        odd = torch.arange(logits.size(-1)) % 2 == 1
        for b, row in enumerate(ids.tolist()):
            for at in range(3, len(row) - (not self.told)):
                key = hash((row[at - 3], row[at - 2], row[at - 1], row[at], at))
                if key % SHARE:
                    continue
                page = FLAGS + key // SHARE % (len(self.at) - FLAGS)
                if self.told:
                    bit = self.table[page]
                elif page in self.used:
                    bit = self.used[page]
                else:
                    bit = self.used[page] = row[at + 1] % 2 == 1
                    if bit:
                        self.read(page)
                logits[b, at] += 3.0 * (odd == bit)
        return logits
"""


def cheat(text: str) -> str:
    """The first scorer knows itself by what lies in memory: not the pattern that it leaves for the second."""
    return swap(
        adding(importing(text, "os"), CHANNEL), "    return model.to(device).eval()\n", "    return Telling(model.to(device).eval())\n"
    )
