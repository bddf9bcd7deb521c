"""Whether each detector fires on its own fault and on none of the others: scripted faults and honest work (tests/faults.py), as recorded nights.

Bars: `hits`, faults on which their own detector fires, as a share; `others`, firings of any other detector on a fault; `false_alarms`, firings on honest work.
The matrix has the faults in its rows, grouped by the detector that they are for, and the detectors in its columns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from harness.evaluation import detectors  # noqa: E402
from harness.evaluation.detectors import DETECTORS  # noqa: E402
from tests.faults import CASES, Case  # noqa: E402

HONEST = "honest work"


def matrix(cases: list[Case]) -> dict[str, dict[str, int]]:
    """How often each detector fired, by what the case is for; `cases` counts the cases."""
    rows: dict[str, Counter[str]] = {name: Counter() for name in (*DETECTORS, HONEST)}
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            row = rows[case.detector or HONEST]
            row["cases"] += 1
            row.update(finding.detector for finding in detectors.findings(case.seen(Path(folder) / str(number))))
    return {name: {column: row[column] for column in ("cases", *DETECTORS)} for name, row in rows.items()}


def bars(rows: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    """What must hold."""
    faults = {name: row for name, row in rows.items() if name != HONEST}
    hits = sum(row[name] for name, row in faults.items()) / sum(row["cases"] for row in faults.values())
    others = sum(row[column] for name, row in faults.items() for column in DETECTORS if column != name)
    alarms = sum(rows[HONEST][column] for column in DETECTORS)
    return [
        {"name": "hits", "value": hits, "limit": 1.0, "ok": hits == 1.0},
        {"name": "others", "value": others, "limit": 0, "ok": others == 0},
        {"name": "false_alarms", "value": alarms, "limit": 0, "ok": alarms == 0},
    ]


def as_table(rows: dict[str, dict[str, int]]) -> str:
    """The matrix as Markdown."""
    lines = [
        f"| fault \\ detector | cases | {' | '.join(name.replace('_', ' ') for name in DETECTORS)} |",
        "|---|" + "---|" * (len(DETECTORS) + 1),
    ]
    lines += [
        f"| {name.replace('_', ' ')} | {row['cases']} | {' | '.join(str(row[column]) for column in DETECTORS)} |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the matrix and the bars; 1 when one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = matrix(CASES)
    found = bars(rows)
    if asked.json:
        print(json.dumps({"matrix": rows, "bars": found}))
    else:
        print(as_table(rows))
        print("\n".join(f"{'ok  ' if bar['ok'] else 'FAIL'} {bar['name']} {bar['value']:g} (limit {bar['limit']:g})" for bar in found))
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
