"""What to believe of a night, in a few sentences of Markdown: the gain, how it was selected, and what chance alone would show.

It certifies nothing and says so. Works on any prefix of a night.
"""

from __future__ import annotations

from harness.artifacts import gains
from harness.artifacts.gains import believed_value
from harness.artifacts.study import Study
from harness.views import chance, status
from harness.views.text import md, number, plural, signed


def headline(study: Study) -> list[str]:
    """What to believe, one paragraph each."""
    base = study.baseline
    if base is None:
        return ["**What to believe: nothing yet.** The baseline has not been measured.", *_running(study)]
    value = believed_value(base)
    if value is None:
        said = md(base.verdict.detail or base.verdict.reason, 200) if base.verdict else ""
        return [f"**What to believe: nothing.** The baseline failed ({base.status.value if base.status else 'unknown'}: {said}), "
                f"so no gain can be stated. Mend {md(status.scope_text(study))} first.", *_running(study)]  # fmt: skip
    if status.gain(study) is None:
        tried = (
            f"No candidate was kept; {plural(status.judged(study), 'was', 'were')} judged"
            if study.trials
            else "No candidate has finished yet"
        )
        return [f"**What to believe: no gain.** {tried}. The baseline reads {value:.6f}.", *_running(study)]
    return [_belief(study), _by_chance(study), *_running(study)]


def _belief(study: Study) -> str:
    found, best = status.gain(study) or {}, study.incumbent
    assert best is not None, "a gain has an incumbent"
    debiased = ""
    if "standard_error" in found:
        debiased = f"; without the luck of being selected about {signed(found['estimate'])} ± {found['standard_error']:.4f}"
    return (
        f"**What to believe: a search result, biased and not certified.** Trial {best.trial} reads {number(believed_value(best), 6)}, the baseline "
        f"{number(gains.reference(study), 6)}{' with the same seed' if status.paired(study) else ''}: a gain of {signed(found['reading'])} by its "
        f"reading{debiased}. The ratchet picked the lucky readings, and nothing has measured the gain afresh."
    )


def _by_chance(study: Study) -> str:
    """The night against nights in which nothing helps."""
    rule, count = _rule(study), status.judged(study)
    base_readings, again = gains.baseline_readings(study), not status.paired(study)
    expected = chance.expected_chance_keeps(count, rule, base_readings, again)
    said = f"{plural(status.keeps(study), 'keep')} of {count:,} judged; if no idea helped, the `{rule}` rule would keep about {expected:.1f} by chance"
    found = status.gain(study)
    if found is None or study.noise is None:
        return f"{said}."
    sigma = study.noise.sigma
    limit = chance.chance_gain(count, rule, base_readings, again) * sigma
    word = (
        "This one shows more: **part of the gain is real**, if the noise is what it seems."
        if found["reading"] > limit
        else "This one does not show more: **measure it again before you rely on it.**"
    )
    return (
        f"{said}, and 19 of 20 such nights would show a gain below {limit:.4f}. {word} One reading scatters by {status.sigma_text(study)}."
    )


def _rule(study: Study) -> str:
    last = study.rows[-1].verdict if study.rows else None
    return last.rule if last else "debiased"


def _running(study: Study) -> list[str]:
    if study.stop is not None or study.current is None:
        return []
    return [f"Trial {study.current.trial} ({md(study.current.title)}) was in progress when this page was written."]
