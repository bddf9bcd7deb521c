"""What else was on the device while a number was made, and the rules that read it. Pure: records in, words out; no clock, no driver.

A process that computes on the device and is not the study's shares it. Three kinds do not count: those that draw (a desktop; one
that came later and computes besides may hold `SMALL_MB`), the server of CUDA's Multi-Process Service, and those that held at most `SMALL_MB` when the study began and hold no more now: they are conditions of the baseline, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.records import Record

SHARED = "device_shared"
SMALL_MB = 1024.0
SLACK_MB = 256.0
MPS_SERVER = "nvidia-cuda-mps"  # the kernel cuts the names of processes at 15 letters
SLOW = frozenset({"hardware slowdown", "hardware thermal slowdown", "software thermal slowdown", "power brake"})
SLOW_SHARE = 0.1
HALF_CLOCK = 0.6
SAME_CLOCK = 0.85
BUSY_SHARE = 0.25


class Occupant(Record):
    """A process on the device that is not the study's. `started` in seconds after boot; memory in MiB, `None` where the driver does not say."""

    pid: int
    started: float | None = None
    name: str = "?"
    memory_mb: float | None = None
    draws: bool = False
    computes: bool = True

    @property
    def words(self) -> str:
        """`process 812 (python, 412 MiB)`."""
        memory = "" if self.memory_mb is None else f", {self.memory_mb:.0f} MiB"
        return f"process {self.pid} ({self.name}{memory})"


class DeviceState(Record):
    """One look at a GPU from outside: MiB, MHz, degrees Celsius, watts. `slowed_by` says why its clocks are low; idle is no reason.

    `comparable`: the driver's process numbers are known to be ours. In a container they may be the host's; then nobody can be called a stranger.
    `listed_mb`: memory of all processes on the driver's list, those of a host included that we do not see; not `all_listed` where it keeps some back.
    """

    memory_used_mb: float | None = None
    memory_total_mb: float | None = None
    listed_mb: float | None = None
    all_listed: bool = True
    occupants: tuple[Occupant, ...] = ()
    comparable: bool = True
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    slowed_by: tuple[str, ...] = ()
    temperature_c: float | None = None
    power_limit_w: float | None = None

    @property
    def unclaimed_mb(self) -> float | None:
        """Memory in use that no process accounts for: the driver's own, and what a tree of ours has not given back yet."""
        if self.memory_used_mb is None:
            return None
        listed = self.listed_mb if self.listed_mb is not None else sum(one.memory_mb or 0.0 for one in self.occupants)
        return self.memory_used_mb - listed

    @property
    def accounted(self) -> bool:
        """Whether memory that nobody accounts for is nobody's: every process can be told apart and says how much it has."""
        return self.comparable and self.all_listed


class Conditions(Record):
    """Around and during one training job. Clock (mean, MHz) and slowdown (share of looks, 0 to 1) are those of the training phase.

    `other_cpu_share`: how much of all CPU time of the machine went to processes that were neither the job's nor the harness's, 0 to 1.
    """

    before: DeviceState | None = None
    after: DeviceState | None = None
    sm_clock_mhz: float | None = None
    slowed_share: float | None = None
    slowed_by: tuple[str, ...] = ()
    other_cpu_share: float | None = None


def sharers(began: DeviceState | None, now: Iterable[Occupant]) -> list[Occupant]:
    """Who computes on the device and did not when the study began, or holds more than then.

    A process of the beginning that is gone may come back under another number (after a reboot, say): each vouches for one of its name.
    """
    places = [one for one in (began.occupants if began else ()) if one.draws or (one.memory_mb is not None and one.memory_mb <= SMALL_MB)]
    found, others = [], []
    for one in now:
        desktop = one.draws and not (one.computes and (one.memory_mb or 0.0) > SMALL_MB)
        if desktop or one.name.startswith(MPS_SERVER):
            continue
        place = next((place for place in places if (place.pid, place.started) == (one.pid, one.started)), None)
        if place is None:
            others.append(one)
            continue
        places.remove(place)
        if _grown(place, one):
            found.append(one)
    for one in others:
        place = next((place for place in places if place.name == one.name and not _grown(place, one)), None)
        if place is None:
            found.append(one)
        else:
            places.remove(place)
    return found


def _grown(before: Occupant, now: Occupant) -> bool:
    return (
        not (before.draws and now.draws)
        and before.memory_mb is not None
        and now.memory_mb is not None
        and now.memory_mb > before.memory_mb + SLACK_MB
    )


def strangers(began: DeviceState | None, now: DeviceState) -> list[Occupant]:
    """`sharers`, or nobody where the driver's process numbers are not known to be ours."""
    return sharers(began, now.occupants) if now.comparable else []


def unreturned_mb(began: DeviceState | None, now: DeviceState) -> float:
    """Device memory that nobody alive accounts for, beyond what was so when the study began; 0 where it cannot be told or is small."""
    if began is None or began.unclaimed_mb is None or now.unclaimed_mb is None:
        return 0.0
    more = now.unclaimed_mb - began.unclaimed_mb
    return more if more > SLACK_MB else 0.0


def taken_up(began: DeviceState | None, now: DeviceState | None) -> DeviceState | None:
    """What a study that goes on compares with: memory as it is now, for card or driver may be others; who was there when it began."""
    if began is None or now is None:
        return now or began
    listed = now.listed_mb if now.listed_mb is not None else sum(one.memory_mb or 0.0 for one in now.occupants)
    return now.model_copy(update={"occupants": began.occupants, "listed_mb": listed})


def at_the_beginning(began: DeviceState | None) -> list[str]:
    """One sentence for each process that computes on the device when a study begins and will not count as sharing it."""
    counted = {one.pid for one in sharers(began, began.occupants)} if began else set()
    used = began.memory_used_mb if began and not began.comparable else None
    unknown = [
        f"{used:.0f} MiB of the device are in use when the study begins, and whose they are cannot be told: the numbers of processes may be the host's"
    ] if used is not None and used > SMALL_MB else []  # fmt: skip
    return unknown + [
        f"{one.words} was on the device when the study began: it is taken as a condition of all trials as long as it holds no more memory"
        for one in (began.occupants if began else ())
        if not one.draws and one.pid not in counted
    ]


def slowness(seen: Conditions | None, baseline: Conditions | None, wall: bool) -> str:
    """One plain sentence when the machine was slower than it can be, or not as fast as for the baseline; "" when nothing is known of it.

    `wall`: the budget is one of wall time, so that the CPU time that others took is training that was lost.
    """
    if seen is None:
        return ""
    top = next((look.sm_clock_max_mhz for look in (seen.before, seen.after) if look and look.sm_clock_max_mhz), None)
    clock, before = seen.sm_clock_mhz, baseline.sm_clock_mhz if baseline else None
    why = f" ({', '.join(seen.slowed_by)})" if seen.slowed_by else ""
    if seen.slowed_share is not None and seen.slowed_share >= SLOW_SHARE:
        return f"the GPU was slowed down in {seen.slowed_share:.0%} of the training{why}"
    if clock is not None and before is not None and min(clock, before) < SAME_CLOCK * max(clock, before):
        return f"the GPU ran at {clock:.0f} MHz, the baseline's training at {before:.0f}{why}"
    if clock is not None and top is not None and clock < HALF_CLOCK * top and seen.slowed_by:
        return f"the GPU ran at {clock:.0f} of {top:.0f} MHz{why}"
    if wall and seen.before is None and seen.other_cpu_share is not None and seen.other_cpu_share >= BUSY_SHARE:
        return f"other processes took {seen.other_cpu_share:.0%} of the machine's CPU time"
    return ""
