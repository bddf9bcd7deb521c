"""What else was on the device, and how fast it ran, in words."""

from __future__ import annotations

from harness.artifacts.study import Study
from harness.conditions import Conditions, DeviceState, slowness
from harness.views.text import flatten, md, number, plural

MOST = 12


def state_text(state: DeviceState) -> str:
    """`612 of 143771 MiB in use; SM clock 345 of 1980 MHz; 41 °C; 700 W; nobody else on it`."""
    parts = [
        f"{number(state.memory_used_mb, 0, '?')} of {number(state.memory_total_mb, 0, '?')} MiB in use",
        f"SM clock {number(state.sm_clock_mhz, 0, '?')} of {number(state.sm_clock_max_mhz, 0, '?')} MHz",
        f"{number(state.temperature_c, 0, '?')} °C", f"limit {number(state.power_limit_w, 0, '?')} W",
    ]  # fmt: skip
    if state.slowed_by:
        parts.append(f"clocks held down by {', '.join(state.slowed_by)}")
    return "; ".join([*parts, _others(state)])


def _others(state: DeviceState) -> str:
    if not state.occupants:
        return (
            "nobody else on it"
            if state.comparable
            else "who else is on it cannot be told before a job runs: the numbers of processes may be the host's"
        )
    others = [f"{flatten(one.words)}{', drawing' if one.draws else ''}" for one in state.occupants[:MOST]]
    return f"also on it: {'; '.join(others)}{f' and {len(state.occupants) - MOST} more' if len(state.occupants) > MOST else ''}"


def conditions_text(seen: Conditions) -> str:
    """The conditions of one reading, or "" when nothing was seen of them."""
    parts = [f"SM clock {seen.sm_clock_mhz:.0f} MHz in training"] if seen.sm_clock_mhz is not None else []
    if seen.slowed_by:
        parts.append(f"clocks held down by {', '.join(seen.slowed_by)}")
    if seen.slowed_share:
        parts.append(f"slowed down in {seen.slowed_share:.0%} of it")
    if seen.other_cpu_share is not None:
        parts.append(f"{seen.other_cpu_share:.0%} of the machine's CPU time went to others")
    return ", ".join(parts)


def report_lines(study: Study) -> list[str]:
    """For the report: what was on the device at the start, and the readings that ran slowly or beside others."""
    lines = []
    if study.started and study.started.device_state:
        lines.append(f"- the device when the study began: {md(state_text(study.started.device_state), 900)}")
    base = study.baseline.readings[0].outcome.conditions if study.baseline and study.baseline.readings else None
    told = [(row.trial, said) for row in study.rows for one in row.readings if (said := slowness(one.outcome.conditions, base, wall=False))]
    if told:
        trials = list(dict.fromkeys(trial for trial, _ in told))
        named = f"{', '.join(map(str, trials[:MOST]))}{', …' if len(trials) > MOST else ''}"
        lines.append(
            f"- {plural(len(trials), 'trial')} at another speed of the GPU, hard to compare: {named}; trial {told[-1][0]}: {md(told[-1][1], 200)}"
        )
    return lines
