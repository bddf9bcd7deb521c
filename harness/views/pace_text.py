"""The forecast at the present pace, for status and console: `87 trials by 06:12, by hours; dollars first: used up in 40 more, about 02:10`."""

from __future__ import annotations

from typing import Any

from harness.artifacts.study import Study
from harness.control.pace import Reached, at_this_pace, moment
from harness.views.text import duration, plural


def facts(study: Study) -> dict[str, Any] | None:
    """JSON-able; `None` while there is no pace."""
    found = at_this_pace(study)
    if found is None:
        return None
    return {
        "seconds_a_trial": found.seconds_a_trial,
        "trials_by_the_end": found.trials,
        "first": found.first.limit if found.first else None,
        "reached": [one.model_dump() for one in found.reached],
    }


def status_lines(study: Study) -> list[str]:
    """For `ratchet status`."""
    said = sentence(study)
    return [f"  forecast   {said}"] if said else []


def sentence(study: Study) -> str:
    """What the night comes to, in one line; '' when it is over."""
    if study.stop is not None:
        return ""
    found = at_this_pace(study)
    if found is None:
        return "unknown until a trial after the baseline is done"
    end, each = found.end, f"{duration(found.seconds_a_trial)} a trial"
    said = [
        f"{plural(found.trials or 0, 'trial')} by the end, {_clock(end)} by {end.limit}" if end else "no limit of trials or time ends it",
        each,
    ]
    said += [
        f"{one.limit} used up after {plural(one.trials, 'more trial', 'more trials')}, {_clock(one)}"
        for one in found.reached
        if not one.ends
    ]
    first = (
        f"; {found.first.limit} {'come' if found.first.limit.endswith('s') else 'comes'} first"
        if found.first and len(found.reached) > 1
        else ""
    )
    return f"at this pace {'; '.join(said)}{first}"


def _clock(one: Reached) -> str:
    at = moment(one.at)
    return f"about {at.astimezone():%a %H:%M}" if at is not None else "at an unknown time"
