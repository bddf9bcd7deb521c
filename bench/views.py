"""What `ratchet status` and `ratchet report` cost on a study of 10,000 trials: CPU seconds of the whole process, interpreter and imports included.

Bars `status_cpu_s` and `report_cpu_s`. Both read the derived snapshot and the journal's tail; `equal_to_replay` says that the result is what a replay
of the whole journal gives. The study is synthetic: its journal is written by the real `Journal`, its trials were never run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

ROOT = Path(__file__).parent.parent
TRIALS = 10_000
STATUS_S, REPORT_S = 0.5, 5.0


def cpu_of(arguments: list[str], folder: Path) -> float:
    """CPU seconds of one command line, the best of three: the machine's noise only adds."""
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> int:
    """Write the study, measure, compare with a full replay, print."""
    from harness.artifacts import journal
    from harness.artifacts import snapshot as snapshots
    from harness.artifacts import study as fold
    from harness.artifacts.trial_dir import StudyDir
    from tests.study_factory import write_journal

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trials", type=int, default=TRIALS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = StudyDir(Path(name), "bench")
        folder.path.mkdir(parents=True)
        write_journal(folder.journal, options.trials)
        tail = options.trials // 4
        whole, _ = fold.replay(folder.journal)
        early = fold.Study()
        for entry, position in journal.read(folder.journal):
            early.apply(entry)
            if entry.seq == whole.row_count * 8 - tail:
                snapshots.write(early, position, folder.snapshot)
        quick = snapshots.load(folder.journal, folder.snapshot)
        equal = quick == whole and quick.rows == whole.rows
        status = cpu_of(["status"], Path(name))
        report = cpu_of(["report"], Path(name))
    bars = [
        {"name": "status_cpu_s", "value": round(status, 3), "limit": STATUS_S, "ok": status <= STATUS_S},
        {"name": "report_cpu_s", "value": round(report, 3), "limit": REPORT_S, "ok": report <= REPORT_S},
        {"name": "equal_to_replay", "value": int(equal), "limit": 1, "ok": equal},
    ]
    found = {"trials": options.trials, "bars": bars}
    if options.json:
        print(json.dumps(found))
    else:
        for bar in bars:
            print(f"{bar['name']:20} {bar['value']:>8}   limit {bar['limit']}   {'ok' if bar['ok'] else 'MISSED'}")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
