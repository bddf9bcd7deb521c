"""Does a GPU machine train as it should? One command of some four minutes, without network: the embedded corpus at GPU size, twice with the same seed.

    python bench/gpu_check.py [--json] [--seconds 60]

The context is that of the GPU profile, 2,048 tokens, so that attention is cut into windows as in a night on a GPU; the embedded corpus is only shorter of text.
Reports, of each run: seconds of set-up (the first compiles cold, the second from the cache), tokens a second, the share of the device's bfloat16 peak
that they are (MFU, for devices of the list), peak memory, evaluation seconds, val_bpb. Bars: the two values agree within `noise`, the warm set-up is
shorter than the cold one. `--device cpu --train train.py` walks the same path where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEAK_TFLOPS = {
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "4090": 165,
    "5090": 210,
    "3090": 71,
}  # dense bfloat16, as the makers state them
NOISE = 0.02  # of two runs with the same seed: atomic sums on a GPU come in any order
SUMMARY = re.compile(r"^(\w+): +([\d.]+)$", re.MULTILINE)


def prepared_text() -> str:
    """prepare.py with the context of the GPU profile for the embedded corpus; the data is the same."""
    text = (ROOT / "prepare.py").read_text()
    contexts = [re.search(rf'^    "{name}": Profile\("[^"]*", \d+, (\d+),', text, re.MULTILINE) for name in ("cpu", "gpu")]
    assert contexts[0] and contexts[1], "prepare.py writes its profiles in another way now"
    begin, end = contexts[0].span(1)
    return text[:begin] + contexts[1][1] + text[end:]


def run(train: Path, device: str, seconds: float, cache: Path) -> dict[str, Any]:
    """One run by hand in a folder of its own. Where its phases ended is told by the files it leaves: curve, then checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(train.read_text())
        (folder / "prepare.py").write_text(prepared_text())
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        command = [
            sys.executable,
            "train.py",
            "--profile",
            "cpu",
            "--device",
            device,
            "--clock",
            "wall",
            "--amount",
            str(seconds),
            "--threads",
            "1",
        ]
        began = time.time()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while process.poll() is None and not (folder / "curve.jsonl").exists():
            time.sleep(0.01)
        ready = time.time()
        printed = process.communicate()[0]
        ended = time.time()
        if process.returncode:
            sys.exit(f"the run failed:\n{printed[-3000:]}")
        saved = (folder / "checkpoint.safetensors").stat().st_mtime
        told = {key: float(value) for key, value in SUMMARY.findall(printed)}
    tokens = told["total_tokens_M"] * 1e6 / told["training_seconds"]
    facts = {
        "setup_seconds": ready - began,
        "training_seconds": told["training_seconds"],
        "evaluation_seconds": ended - saved,
        "tokens_per_second": tokens,
    }
    return {**facts, "peak_memory_mb": told["peak_vram_mb"], "parameters": told["num_params_M"] * 1e6, "val_bpb": told["val_bpb"]}


def device_name(device: str) -> str:
    """The device as torch calls it, asked in a process of its own."""
    code = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return found if device == "cuda" else f"{device} (no GPU is checked)"


def main() -> int:
    """Prepare, run twice, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, each of the two runs")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--train", type=Path, default=ROOT / "examples" / "gpu" / "train.py")
    options = parser.parse_args()
    name = device_name(options.device)
    if options.device == "cuda" and not name:
        sys.exit("no CUDA device is present; `--device cpu --train train.py` walks the same path on the processor")
    subprocess.run([sys.executable, str(ROOT / "prepare.py"), "--profile", "cpu"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (run(options.train, options.device, options.seconds, Path(cache)) for _ in range(2))
    peak = next((tflops * 1e12 for word, tflops in PEAK_TFLOPS.items() if word in name), None)
    for one in (cold, warm):  # 6 operations a parameter and token; tables that are only looked up count too, so this is an upper bound
        one["mfu_at_most"] = 6 * one["parameters"] * one["tokens_per_second"] / peak if peak else None
    apart = abs(cold["val_bpb"] - warm["val_bpb"])
    bars = [{"name": "noise", "value": round(apart, 6), "limit": NOISE, "ok": apart <= NOISE}]
    if options.device == "cuda":
        ratio = warm["setup_seconds"] / cold["setup_seconds"]
        bars.append({"name": "warm_by_cold_setup", "value": round(ratio, 3), "limit": 1.0, "ok": ratio < 1.0})
    if options.json:
        print(json.dumps({"device": name, "cold": cold, "warm": warm, "bars": bars}))
    else:
        print(f"device: {name}")
        for kind, one in (("cold", cold), ("warm", warm)):
            print(f"{kind}: " + ", ".join(f"{key} {value:,.4g}" for key, value in one.items() if value is not None))
        for bar in bars:
            print(f"{'ok ' if bar['ok'] else 'BAD'}  {bar['name']}: {bar['value']} (limit {bar['limit']})")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
