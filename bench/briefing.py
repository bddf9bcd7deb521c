"""How large the page of a proposal is after 10, 100 and 1,000 trials, with the shipped program.md and train.py; what it costs to make and to send.

Bars `flat` (largest by smallest page), `prefix_identical` (what a provider caches is the same to the byte), `render_cpu_ms`. Tokens are an estimate: a
tokenizer for English and code makes 3 to 4 bytes into one. The studies are synthetic.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

ROOT = Path(__file__).parent.parent
COUNTS = (10, 100, 1000)
FLAT, RENDER_MS = 1.1, 100.0
BYTES_PER_TOKEN = (3.0, 4.0)


def main() -> int:
    """Render, measure, print."""
    from harness.artifacts.trial_dir import StudyDir
    from harness.proposers import prices, prompt
    from harness.proposers.anthropic import HOW
    from harness.proposers.toolbox import DEFINITIONS
    from harness.rules import parse
    from tests.study_factory import study

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    program, train = (ROOT / "program.md").read_text(), {"train.py": (ROOT / "train.py").read_text()}
    pages, spent = {}, {}
    with tempfile.TemporaryDirectory() as name:
        for count in COUNTS:
            night = study(count)
            began = time.process_time()
            pages[count] = prompt.render(night, StudyDir(Path(name), "mar8"), program, train, train, parse(program))
            spent[count] = 1000 * (time.process_time() - began)
    prefixes = {json.dumps(DEFINITIONS) + page.stable + HOW for page in pages.values()}
    prefix = len(next(iter(prefixes)).encode())
    sizes = {count: prefix + len(page.changing.encode()) for count, page in pages.items()}
    ratio = max(sizes.values()) / min(sizes.values())
    low, high = (max(sizes.values()) / per for per in reversed(BYTES_PER_TOKEN))
    price = prices.load().of("claude-opus-5-5")
    assert price is not None, "it is listed"
    three = {"input_tokens": 0, "output_tokens": 4000, "cache_creation_input_tokens": int(high), "cache_read_input_tokens": 2 * int(high)}
    dollars = prices.cost(price, three)
    bars = [
        {"name": "flat", "value": round(ratio, 3), "limit": FLAT, "ok": ratio <= FLAT},
        {"name": "prefix_identical", "value": len(prefixes), "limit": 1, "ok": len(prefixes) == 1},
        {"name": "render_cpu_ms", "value": round(max(spent.values()), 1), "limit": RENDER_MS, "ok": max(spent.values()) <= RENDER_MS},
    ]
    found = {
        "prefix_bytes": prefix,
        "page_bytes": sizes,
        "tokens": [round(low), round(high)],
        "dollars_of_three_answers": dollars,
        "bars": bars,
    }
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"page {', '.join(f'{size:,} bytes after {count:,} trials' for count, size in sizes.items())}, of which {prefix:,} are the cached prefix"
        )
        print(
            f"{low:,.0f} to {high:,.0f} tokens a page; a proposal of three answers costs about {dollars:.2f} dollars with claude-opus-5-5"
        )
        for bar in bars:
            print(f"{'ok ' if bar['ok'] else 'BAD'}  {bar['name']}: {bar['value']} (limit {bar['limit']})")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
