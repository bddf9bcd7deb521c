"""When the next rung of the stall ladder is due, when the way down, and which rung can do nothing here. Pure: values in, values out.

Each rung is taken once in a drought, which a keep ends. The rules are asked anew each time, so an edit of `[stall]` holds at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.artifacts.ladder import Ladder
from harness.artifacts.oversight_events import Climbed
from harness.oversight import Rung, Stall
from harness.trial import OFFLINE, Record

MODEL = "anthropic"
DEAF = frozenset({"scripted"})  # a list of edits does what it says, whatever the rung


class Reach(Record):
    """What the rungs could do in this study. `proposers` are those of the study by name, `near_misses` those that can be combined, `other_model` names what
    would be asked instead, `absent` who would be but is away or has no more ideas, `critic` says why no reviewer can be asked.
    """

    proposers: tuple[str, ...]
    near_misses: int = 0
    other_model: str = ""
    absent: str = ""
    critic: str = ""


def is_due(ladder: Ladder, law: Stall) -> bool:
    """Whether there is a step to take, up or down."""
    return bool(_down(ladder, law)) or _up(ladder, law) is not None


def due(ladder: Ladder, law: Stall, reach: Reach) -> Climbed | None:
    """The step that is due with its reason; `None` when none is. A rung that can do nothing is passed over, and then the next one is due."""
    if why := _down(ladder, law):
        return Climbed(rung="", why=why)
    rung = _up(ladder, law)
    if rung is None:
        return None
    if hindrance := passes(rung, reach):
        return Climbed(rung=rung, why=hindrance, passed_over=True)
    return Climbed(rung=rung, why=_why(ladder, law))


def other_model(shares: Mapping[str, float], models: tuple[str, ...], absent: Collection[str] = ()) -> str:
    """What would be asked instead of who proposes most: its next model, or another proposer of the mix; '' when there is neither, or it is `absent`."""
    most = _most(shares)
    if most == MODEL and len(models) > 1:
        return "" if most in absent else models[1]
    return next((name for name in shares if name != most and name not in absent), "")


def shifted(shares: Mapping[str, float], models: tuple[str, ...], rung: Rung | None, absent: Collection[str]) -> Mapping[str, float]:
    """The shares while `rung` is in force: on `other_model` who proposes most sits out, unless it has another model itself or everybody else is `absent`."""
    most = _most(shares)
    if rung != "other_model" or (most == MODEL and len(models) > 1):
        return shares
    others = {name: share for name, share in shares.items() if name != most and name not in absent}
    return others or shares


def passes(rung: Rung, reach: Reach) -> str:
    """Why a rung can do nothing here; '' when it can do something."""
    if rung == "ask":
        return ""
    if not set(reach.proposers) - DEAF:
        return "only a list of edits proposes, and it heeds no rung"
    if rung in ("wider_briefing", "critic") and not set(reach.proposers) - OFFLINE:
        return "no proposer of this study reads"
    if rung == "combine" and reach.near_misses < 2:
        return "there are no two near misses on the incumbent that change different parts"
    if rung == "other_model" and not reach.other_model:
        there = f"{reach.absent} would be asked instead, but is away or has no more ideas now" if reach.absent else ""
        return there or "there is no other model in [model] names and no other proposer in a mix"
    return reach.critic if rung == "critic" else ""


def _down(ladder: Ladder, law: Stall) -> str:
    """Why the ladder is left, or nothing."""
    if ladder.kept is not None:
        return f"trial {ladder.kept} was kept"
    if ladder.rung is None or (law.after is not None and ladder.rung in law.rungs):
        return ""
    return f"program.md no longer has the rung {ladder.rung} in [stall] rungs"


def _up(ladder: Ladder, law: Stall) -> Rung | None:
    """The rung whose time has come: the first that was not taken or passed over in this drought."""
    if law.after is None:
        return None
    threshold = max(law.after, ladder.at + law.quota) if ladder.at else law.after
    return next((rung for rung in law.rungs if rung not in ladder.climbed), None) if ladder.drought >= threshold else None


def _why(ladder: Ladder, law: Stall) -> str:
    since = f"{ladder.drought} measured trials since the last keep"
    if not ladder.at:
        return f"{since} ([stall] after = {law.after})"
    return f"{since}, {ladder.drought - ladder.at} of them on the rung before ([stall] quota = {law.quota})"


def _most(shares: Mapping[str, float]) -> str:
    return max(shares, key=lambda name: shares[name])
