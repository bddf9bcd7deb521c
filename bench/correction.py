"""Is bounded correction worth it? The same faulty candidates under three arms, in real studies of the stub project: no correction, this policy, plain retry.

The faults are a seeded list whose truth is known: out of memory that halving mends or does not, a crash that the scripted model mends or does not, a fault that passes by
itself, a loss that is no number, and honest regressions that nothing may touch. By type of fault: how many there were, how many ended as the measurement that was meant, how
many repairs broke in another way, how many failed in the end, how many candidates that could be mended were not even tried. The model is scripted, so its skill is given and
not measured; what is measured is what the policy makes of it. Bars: the policy mends all that can be mended without a model, touches no regression, and costs the plain retry's trials at most.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from harness.artifacts import journal  # noqa: E402
from harness.artifacts.study import Study  # noqa: E402
from harness.artifacts.trial_row import TrialRow  # noqa: E402
from harness.proposers.protocol import Briefing  # noqa: E402
from harness.trial import FAILED, Proposal  # noqa: E402
from tests.projects import folder_of, git, make_project, run_study, study_of  # noqa: E402
from tests.repairs import with_memory  # noqa: E402

ARMS = ("none", "policy", "retry")
ASKED = "# A repair is asked for"
PLAN = "RATCHET_BENCH_CORRECTION"
CALL = "    undefined_step()\n"
FLAKY = "    if not os.path.exists({path!r}):\n        open({path!r}, 'w').close()\n        raise OSError('the disk did not answer')\n"


class Fault(NamedTuple):
    """One faulty candidate: its type, the value it would be measured at, whether anything can mend it."""

    kind: str
    value: float
    mendable: bool
    mark: str


def faults(seed: int, each: int, folder: Path) -> list[Fault]:
    """The seeded list, in a seeded order."""
    kinds = {"oom_halving_mends": True, "oom_halving_does_not": False, "crash_model_mends": True, "crash_model_does_not": False, "flaky": True,
             "no_number": False, "regression": False}  # fmt: skip
    order = [kind for kind in kinds for _ in range(each)]
    random.Random(seed).shuffle(order)
    return [Fault(kind, round(1.25 + 0.004 * n, 4), kinds[kind], str(folder / f"mark{n}")) for n, kind in enumerate(order)]


def candidate(text: str, fault: Fault, number: int) -> str:
    """The parent's text with the fault. No value beats the parent's, so all candidates stand on one incumbent."""
    text = text.replace("VALUE = 1.2\n", f"VALUE = {fault.value}\nSTEP_{number} = {number}\n", 1)
    if fault.kind.startswith("oom"):
        return text.replace("DEPTH = 2\n", f"DEPTH = {4 if fault.mendable else 16}\n", 1)
    if fault.kind.startswith("crash"):
        return text.replace("def train(value):\n", f"def train(value):\n{CALL}", 1)
    if fault.kind == "flaky":
        return text.replace("def train(value):\n", "def train(value):\n" + FLAKY.format(path=fault.mark), 1)
    return text.replace(f"VALUE = {fault.value}", 'VALUE = float("nan")', 1) if fault.kind == "no_number" else text


class Model:
    """The scripted model. It reads: the page costs a quarter of its bytes in tokens, an answer a hundred."""

    name = "model"
    reads = True

    def __init__(self, setting: Any) -> None:
        plan = json.loads(os.environ[PLAN])
        self._faults, self._retries, self._study = [Fault(*one) for one in plan["faults"]], plan["retries"], setting.study

    def propose(self, briefing: Briefing) -> Proposal | None:
        """The next fault of the list; a repair where one is asked for; in the arm of retries the failed candidate once more."""
        study: Study = self._study()
        fresh = [row for row in study.rows if row.trial and row.repairs is None and not row.title.startswith("again")]
        text, last = briefing.files["train.py"], study.rows[-1]
        if briefing.page is not None and ASKED in briefing.page.changing:
            return self._said(briefing, f"mend {last.title}", self._mended(text, self._faults[len(fresh) - 1]))
        if self._retries and last.status in FAILED and not last.title.startswith("again"):
            number = len(fresh) - 1
            return self._said(briefing, f"again {last.title}", candidate(text, self._faults[number], number) + "\n# again\n")
        if len(fresh) == len(self._faults):
            return None
        return self._said(briefing, f"fault {len(fresh)}", candidate(text, self._faults[len(fresh)], len(fresh)))

    def _mended(self, text: str, fault: Fault) -> str:
        if fault.kind == "crash_model_mends":
            return text.replace(CALL, "", 1)
        return text.replace("def train(value):\n", "def train(value):\n    value = value + 0.0\n", 1)

    def _said(self, briefing: Briefing, title: str, text: str) -> Proposal:
        read = len(briefing.page.text().encode()) // 4 if briefing.page else 0
        return Proposal(
            id=briefing.number, parent=briefing.incumbent, title=title, files={"train.py": text}, proposer=self.name,
            usage={"input_tokens": read, "output_tokens": 100},
        )  # fmt: skip


def night(arm: str, listed: list[Fault], folder: Path) -> Path:
    """One study of all faults."""
    law = f"[correction]\nattempts = {1 if arm == 'policy' else 0}\nin_all = 1000\n[escalation]\nconsecutive_crashes = 1000\n"
    project = make_project(
        folder / arm, rules=f'[keep]\nbaseline_readings = 1\n[sandbox]\nlevel = "none"\n[stop]\ntrials = {4 * len(listed)}\n{law}'
    )
    with_memory(project / "train.py")
    git(project, "commit", "-qam", "memory")
    os.environ[PLAN] = json.dumps({"faults": listed, "retries": arm == "retry"})
    run_study(project, proposer=f"{Path(__file__).resolve()}:Model")
    return project


def lines(study: Study) -> Iterator[list[TrialRow]]:
    """The trials of each fault, in its order: the first, then its repairs or retries."""
    found: list[list[TrialRow]] = []
    for row in study.rows[1:]:
        if row.repairs is None and not row.title.startswith("again"):
            found.append([row])
        else:
            found[-1].append(row)
    yield from found


def outcome(arm: str, listed: list[Fault], project: Path) -> dict[str, Any]:
    """What came of every type, and what it cost."""
    study, folder = study_of(project), folder_of(project)
    told = [entry for entry, _ in journal.read(folder.journal)]
    settled = {entry.event.trial: entry.elapsed for entry in told if entry.event.kind == "settled"}
    kinds: dict[str, dict[str, int]] = {}
    waits: list[float] = []
    tokens = 0
    for fault, rows in zip(listed, lines(study), strict=True):
        first, last = rows[0], rows[-1]
        count = kinds.setdefault(fault.kind, dict.fromkeys(("initial", "fixed", "newly_broken", "failed", "over_refused", "touched"), 0))
        failed = first.status in FAILED
        measured = last.value is not None and abs(last.value - fault.value) <= 0.0015
        count["initial"] += int(failed)
        count["fixed"] += int(failed and measured)
        count["failed"] += int(last.status in FAILED)
        count["newly_broken"] += sum(_reason(row) != _reason(first) for row in rows[1:] if row.status in FAILED)
        count["over_refused"] += int(failed and fault.mendable and len(rows) == 1)
        count["touched"] += int(not failed and len(rows) > 1)
        waits += [settled[row.trial] - settled[before.trial] for before, row in itertools.pairwise(rows)]
        tokens += sum(sum(Proposal.model_validate_json(folder.proposal(row.proposal or 0).read_bytes()).usage.values()) for row in rows[1:])
    asked = sum(entry.event.kind == "escalated" for entry in told)
    p50, p95 = (round(statistics.quantiles(waits, n=20, method="inclusive")[at], 3) if len(waits) > 1 else None for at in (9, 18))
    return {
        "arm": arm,
        "kinds": kinds,
        "extra_trials": study.trials - len(listed),
        "extra_tokens": tokens,
        "p50_s": p50,
        "p95_s": p95,
        "asked": asked,
    }


def _reason(row: TrialRow) -> str:
    return row.verdict.reason if row.verdict else ""


def bars(found: dict[str, dict[str, Any]], listed: list[Fault]) -> list[dict[str, Any]]:
    """What must hold of the policy."""
    policy, retry = found["policy"], found["retry"]
    memory = policy["kinds"]["oom_halving_mends"]
    touched = sum(count["touched"] for count in policy["kinds"].values()) + sum(
        len(rows) > 1 for fault, rows in zip(listed, policy["rows"], strict=True) if fault.kind in ("regression", "no_number")
    )
    broken = sum(count["newly_broken"] for count in policy["kinds"].values())
    return [
        {"name": "memory_mended", "value": memory["fixed"] / max(1, memory["initial"]), "limit": 1.0, "ok": memory["fixed"] == memory["initial"]},
        {"name": "must_not_be_touched", "value": touched, "limit": 0, "ok": touched == 0},
        {"name": "newly_broken", "value": broken, "limit": 0, "ok": broken == 0},
        {"name": "trials_against_retry", "value": policy["extra_trials"], "limit": retry["extra_trials"], "ok": policy["extra_trials"] <= retry["extra_trials"]},
    ]  # fmt: skip


def show(found: dict[str, dict[str, Any]], say: Callable[[str], None]) -> None:
    """A table in plain text."""
    say(f"{'fault':22} {'arm':7} initial fixed newly broken failed over-refused")
    for kind in sorted(found["none"]["kinds"]):
        for arm in ARMS:
            count = found[arm]["kinds"][kind]
            say(
                f"{kind:22} {arm:7} {count['initial']:7} {count['fixed']:5} {count['newly_broken']:12} {count['failed']:6} {count['over_refused']:12}"
            )
    for arm in ARMS:
        one = found[arm]
        say(
            f"{arm:7} extra trials {one['extra_trials']}, extra tokens {one['extra_tokens']:,}, P50 {one['p50_s']} s, P95 {one['p95_s']} s, people asked {one['asked']}"
        )


def main() -> int:
    """Run the arms and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=5, help="faults of each type (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="order of the faults (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ.setdefault("RATCHET_LOCKS", str(Path(name) / "locks"))
        for arm in ARMS:
            (marks := Path(name) / f"marks-{arm}").mkdir()
            listed = faults(options.seed, options.each, marks)
            project = night(arm, listed, Path(name))
            found[arm] = {**outcome(arm, listed, project), "rows": list(lines(study_of(project)))}
    held = bars(found, listed)
    arms = {arm: {key: value for key, value in one.items() if key != "rows"} for arm, one in found.items()}
    if options.json:
        print(json.dumps({"seed": options.seed, "each": options.each, "arms": arms, "bars": held}))
    else:
        show(found, print)
        for bar in held:
            print(f"{bar['name']:22} {bar['value']:7.2f}   limit {bar['limit']}   {'ok' if bar['ok'] else 'MISSED'}")
    return 0 if all(bar["ok"] for bar in held) else 1


if __name__ == "__main__":
    sys.exit(main())
