"""At this pace: how many trials the night will have, which limit ends it, and when what models may use is used up. Pure; from the journal's fold alone.

What is not known yet is `None`, never 0: before the first trial after the baseline there is no pace.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

from harness.artifacts.study import Study
from harness.trial import Record


class Reached(Record):
    """A limit that will be reached: after how many more trials, and at what time (ISO, UTC). `ends`: it ends the night; the others send the model away."""

    limit: str
    trials: int
    at: str
    ends: bool


class Pace(Record):
    """The forecast of a running study. `trials`: in all, by the end; `first`: the limit that comes first of `reached`, which is in the order of time."""

    seconds_a_trial: float
    trials: int | None
    reached: tuple[Reached, ...]

    @property
    def first(self) -> Reached | None:
        """The limit that is reached first."""
        return self.reached[0] if self.reached else None

    @property
    def end(self) -> Reached | None:
        """The limit that ends the night."""
        return next((one for one in self.reached if one.ends), None)


def at_this_pace(study: Study) -> Pace | None:
    """`None` while there is no pace: nothing tried yet, or no time has passed, or the study is over."""
    now = moment(study.last_at)
    if study.stop is not None or not study.trials or study.trial_seconds <= 0 or now is None:
        return None
    each = study.trial_seconds / study.trials
    more = {name: left for name, left in (*_ending(study, each, now), *_spent(study)) if left is not None}
    reached = []
    for name, trials in sorted(more.items(), key=lambda item: item[1]):
        whole = max(0, math.ceil(trials) if name in ("calls", "tokens", "dollars", "retries") else math.floor(trials))
        seconds = min(trials * each, 1e9)
        at = (now + timedelta(seconds=seconds)).astimezone(timezone.utc).isoformat(timespec="seconds")
        reached.append(Reached(limit=name, trials=whole, at=at, ends=name in ("trials", "hours", "deadline")))
    ends = next((one for one in reached if one.ends), None)
    return Pace(seconds_a_trial=round(each, 3), trials=study.trials + ends.trials if ends else None, reached=tuple(reached))


def moment(text: Any) -> datetime | None:
    """A time of the journal; one without a zone is UTC."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _ending(study: Study, each: float, now: datetime) -> list[tuple[str, float | None]]:
    """In how many more trials the limits that end a night are reached."""
    trials, hours, deadline = (study.limits.get(name) for name in ("trials", "hours", "deadline"))
    until = moment(deadline) if deadline is not None else None
    return [
        ("trials", max(0.0, float(trials) - study.trials) if trials is not None else None),
        ("hours", max(0.0, float(hours) * 3600 - study.elapsed) / each if hours is not None else None),
        ("deadline", max(0.0, (until - now).total_seconds()) / each if until is not None else None),
    ]


def _spent(study: Study) -> list[tuple[str, float | None]]:
    """In how many more trials what models may use is used up, by what a trial took so far; never, when it took nothing."""
    calls, found = study.calls, list[tuple[str, float | None]]()
    for name, used in (
        ("calls", float(calls.made)),
        ("tokens", float(calls.tokens)),
        ("dollars", calls.charged_usd),
        ("retries", float(calls.retries)),
    ):
        limit = study.limits.get(name)
        found.append((name, max(0.0, float(limit) - used) * study.trials / used if limit is not None and used > 0 else None))
    return found
