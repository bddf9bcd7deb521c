"""What is left of repairs and reviews. Their limits are in the rules, which no view reads: the last decision tells, less what was made since."""

from __future__ import annotations

from harness.artifacts.study import Study
from harness.views.text import plural


def oversight(study: Study) -> dict[str, int | None]:
    """Repairs and reviews left; `None` when there is no limit, or nothing was decided yet."""
    current = study.current
    rows = [row for row in (current, *study.rows[-1:], study.incumbent, study.baseline) if row is not None and row.budget_left is not None]
    left = rows[0].budget_left if rows else None
    open_trial = current if current is not None and current.budget_left is None else None
    since = {
        "repairs": int(open_trial is not None and open_trial.repairs is not None),
        "reviews": int(open_trial is not None and open_trial.trial in study.reviewing.reviews),
    }
    return {name: None if (rest := getattr(left, name, None)) is None else max(0, rest - count) for name, count in since.items()}


def parts(study: Study) -> list[str]:
    """`19 repairs left`, of those that are limited."""
    left = oversight(study)
    return [f"{plural(count, name)} left" for name in ("repair", "review") if (count := left[f"{name}s"]) is not None]
