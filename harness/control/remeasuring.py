"""The incumbent measured again: after a long drought, or while a model is away and the rules say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.artifacts.events import BarMoved
from harness.control.readings import Bench
from harness.evaluation import judge, rereading
from harness.rules import Rules


def done(bench: Bench, rules: Rules, replicating: bool, texts: Callable[[], Mapping[str, str]], cpu_cap: float | None) -> bool:
    """Whether that was due, and is done now or was interrupted."""
    study = bench.recorder.study
    incumbent, bar = study.incumbent, study.bar
    if incumbent is None or bar is None or study.pending is not None:
        return False
    group = study.rereadings.get(incumbent.trial, [])
    taken = len(group) + study.rereadings_failed
    if not (rereading.remeasure_due(rules, bar, taken) or (replicating and rereading.rereading_tells(rules, bar, taken))):
        return False
    number = max(1, len(group)) + study.rereadings_failed
    reading = bench.take(incumbent.model_copy(update={"readings": ()}), number, texts(), rules, cpu_cap)
    if reading is None:
        return True
    value = reading.value if judge.unmeasured(rules, reading) is None else None
    unselected = [*group[0 if incumbent.trial == 0 else 1 :], *([] if value is None else [value])]
    new = (
        rereading.after_remeasuring(unselected).model_copy(update={"cpu_seconds": bar.cpu_seconds})
        if value is not None
        else bar.model_copy(update={"since": 0})
    )
    bench.recorder.emit(BarMoved(trial=incumbent.trial, bar=new, value=value))
    return True
