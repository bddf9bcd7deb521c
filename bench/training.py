"""Our CPU default against upstream's recipe at the same size, at equal CPU seconds: how much lower its val_bpb is.

Bars `bpb_gain_60` and `bpb_gain_300`: mean val_bpb of `bench/upstream_recipe.py` (our own port of the recipe) less that of `train.py`, one thread, 60
and 300 CPU seconds of training, whatever precision the CPU is quick in. `fp32_gain_60` is the same in float32, reported without a limit. The two sides
take turns, seed by seed; compiling would count, and neither side compiles. `--quick` takes fewer seeds. All of it is about an hour of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SIDES = {"ours": ROOT / "train.py", "upstream": ROOT / "bench" / "upstream_recipe.py"}
BARS = (  # name, CPU seconds, precision, seeds a side, the same with --quick, limit
    ("bpb_gain_60", 60, "native", 5, 2, 0.10),
    ("bpb_gain_300", 300, "native", 2, 1, 0.06),
    ("fp32_gain_60", 60, "float32", 3, 1, None),
)


def run(source: Path, seconds: float, seed: int, precision: str) -> tuple[float, float]:
    """val_bpb and millions of tokens seen of one run by hand in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        prepare = (ROOT / "prepare.py").read_text()
        if precision == "float32":
            native = '"bfloat16" if fast else "float32"'
            assert native in prepare, "prepare.py chooses the precision in another way now"
            prepare = prepare.replace(native, '"float32"')
        Path(folder, "prepare.py").write_text(prepare)
        Path(folder, "train.py").write_text(source.read_text())
        command = [
            sys.executable,
            "train.py",
            "--device",
            "cpu",
            "--threads",
            "1",
            "--clock",
            "cpu",
            "--amount",
            str(seconds),
            "--seed",
            str(seed),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # the embedded corpus
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
        summary = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
        return float(summary["val_bpb"]), float(summary["total_tokens_M"])


def compare(name: str, seconds: float, precision: str, seeds: int, limit: float | None) -> dict[str, Any]:
    """One bar: the sides in turns, seed by seed."""
    values: dict[str, list[float]] = {side: [] for side in SIDES}
    tokens: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in range(seeds):
        for side, source in SIDES.items():
            value, seen = run(source, seconds, seed, precision)
            values[side].append(value)
            tokens[side].append(seen)
            print(f"{name}: {side}, seed {seed}: {value:.4f} after {seen:.3f} M tokens", file=sys.stderr, flush=True)
    gain = round(statistics.mean(values["upstream"]) - statistics.mean(values["ours"]), 4)
    return {"name": name, "value": gain, "limit": limit, "ok": limit is None or gain >= limit, "val_bpb": values, "tokens_M": tokens}


def main() -> int:
    """Measure the bars that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="2, 1 and 1 seeds a side instead of 5, 2 and 3")
    parser.add_argument("--only", choices=[bar[0] for bar in BARS], help="one bar instead of all")
    options = parser.parse_args()
    subprocess.run([sys.executable, str(ROOT / "prepare.py")], check=True, stdout=subprocess.DEVNULL)
    bars = [
        compare(name, seconds, precision, quick if options.quick else full, limit)
        for name, seconds, precision, full, quick, limit in BARS
        if options.only in (None, name)
    ]
    if options.json:
        print(json.dumps({"quick": options.quick, "bars": bars}))
    else:
        for bar in bars:
            mean = {side: statistics.mean(found) for side, found in bar["val_bpb"].items()}
            limit = "reported only" if bar["limit"] is None else f"limit {bar['limit']}   {'ok' if bar['ok'] else 'MISSED'}"
            print(f"{bar['name']:14} {bar['value']:7.4f}   {mean['upstream']:.4f} -> {mean['ours']:.4f}   {limit}")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
