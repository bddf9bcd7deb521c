"""Who shares a device and what makes a reading slow: the rules alone, on records."""

from __future__ import annotations

import pytest

from harness.conditions import Conditions, DeviceState, Occupant, at_the_beginning, sharers, slowness, strangers, unreturned_mb


def one(
    pid: int, name: str = "python", mb: float | None = 400.0, started: float | None = 10.0, draws: bool = False, computes: bool = True
) -> Occupant:
    return Occupant(pid=pid, name=name, memory_mb=mb, started=started, draws=draws, computes=computes)


NOTEBOOK, SERVER, DESKTOP = one(7), one(8, "triton"), one(9, "Xorg", draws=True)


@pytest.mark.parametrize(
    ("began", "now", "found"),
    [
        ((), (), []),
        ((), (one(1),), [1]),
        ((), (one(1, mb=None),), [1]),
        ((), (one(1, mb=1.0),), [1]),
        ((), (DESKTOP, one(2, "gnome-shell", 900.0, draws=True)), []),
        ((), (one(3, "nvidia-cuda-mps-server", 30.0),), []),
        ((NOTEBOOK,), (NOTEBOOK,), []),
        ((NOTEBOOK,), (), []),
        ((NOTEBOOK,), (NOTEBOOK, one(1)), [1]),
        ((NOTEBOOK,), (one(7, mb=600.0),), []),
        ((NOTEBOOK,), (one(7, mb=700.0),), [7]),
        ((one(7, mb=None),), (one(7, mb=None),), [7]),
        ((), (one(2, "blender", 3000.0, draws=True),), [2]),
        ((), (one(2, "blender", 3000.0, draws=True, computes=False),), []),
        ((one(2, "blender", 2000.0, draws=True),), (one(2, "blender", 3000.0, draws=True),), []),
        ((NOTEBOOK,), (one(7, started=99.0, mb=9000.0),), [7]),
        ((SERVER,), (one(70, "triton", started=99.0),), []),
        ((SERVER,), (one(70, "triton", started=99.0, mb=3000.0),), [70]),
        ((SERVER,), (SERVER, one(70, "triton", started=99.0)), [70]),
        ((SERVER,), (one(70, "triton", started=99.0), one(71, "triton", started=99.0)), [71]),
        ((SERVER,), (one(70, started=99.0),), [70]),
        ((one(7, mb=20_000.0),), (one(7, mb=20_000.0),), [7]),
        ((one(7, mb=1024.0),), (one(7, mb=1024.0),), []),
    ],
    ids=["nobody", "new", "new of unknown size", "new and small", "desktop", "mps", "known", "known left", "known and new", "a little more", "woke up",
         "size never known", "draws, computes and is large", "only draws", "drew and computed before", "same number, another process", "restarted", "restarted and larger", "a second of the name", "two for one", "another name",
         "too large to be a condition", "just small enough"],
)  # fmt: skip
def test_who_computes_on_the_device_and_did_not_when_the_study_began(
    began: tuple[Occupant, ...], now: tuple[Occupant, ...], found: list[int]
) -> None:
    assert [stranger.pid for stranger in sharers(DeviceState(occupants=began), now)] == found


def test_without_a_beginning_everybody_is_new_and_where_numbers_do_not_compare_nobody_is() -> None:
    now = DeviceState(occupants=(NOTEBOOK,))
    assert strangers(None, now) == [NOTEBOOK]
    assert strangers(None, now.model_copy(update={"comparable": False})) == []


@pytest.mark.parametrize(
    ("used", "others", "held"),
    [(600.0, (), 0.0), (850.0, (), 0.0), (900.0, (), 300.0), (70_600.0, (one(1, mb=70_000.0),), 0.0), (400.0, (), 0.0), (None, (), 0.0)],
    ids=["as before", "within the slack", "not come back", "somebody has it", "less", "not told"],
)
def test_memory_that_nobody_alive_has_is_what_an_earlier_job_did_not_give_back(
    used: float | None, others: tuple[Occupant, ...], held: float
) -> None:
    began = DeviceState(memory_used_mb=1000.0, occupants=(one(7, mb=400.0),))
    assert unreturned_mb(began, DeviceState(memory_used_mb=used, occupants=others)) == held
    assert unreturned_mb(None, DeviceState(memory_used_mb=used, occupants=others)) == 0.0


def test_who_was_there_at_the_beginning_is_named_once_unless_it_will_be_waited_for() -> None:
    began = DeviceState(occupants=(NOTEBOOK, DESKTOP, one(5, mb=9000.0)))
    (said,) = at_the_beginning(began)
    assert said.startswith("process 7 (python, 400 MiB) was on the device when the study began")
    assert at_the_beginning(None) == []


def test_memory_in_use_at_the_beginning_that_nobody_can_be_asked_for_is_said_once() -> None:
    (said,) = at_the_beginning(DeviceState(memory_used_mb=9000.0, comparable=False))
    assert said.startswith("9000 MiB of the device are in use when the study begins")
    assert (
        at_the_beginning(DeviceState(memory_used_mb=600.0, comparable=False)) == at_the_beginning(DeviceState(memory_used_mb=9000.0)) == []
    )


TOP = DeviceState(sm_clock_max_mhz=1980.0)


@pytest.mark.parametrize(
    ("seen", "base", "said"),
    [
        (None, None, ""),
        (Conditions(), None, ""),
        (Conditions(before=TOP, sm_clock_mhz=1980.0, slowed_share=0.0), 1980.0, ""),
        (Conditions(before=TOP, sm_clock_mhz=1300.0, slowed_by=("power cap",)), None, ""),
        (Conditions(before=TOP, sm_clock_mhz=990.0, slowed_by=("power cap",)), None, "the GPU ran at 990 of 1980 MHz (power cap)"),
        (Conditions(before=TOP, sm_clock_mhz=990.0), None, ""),
        (Conditions(slowed_share=0.05, slowed_by=("hardware slowdown",)), None, ""),
        (Conditions(slowed_share=0.4, slowed_by=("power brake",)), None, "the GPU was slowed down in 40% of the training (power brake)"),
        (Conditions(sm_clock_mhz=1500.0), 1980.0, "the GPU ran at 1500 MHz, the baseline's training at 1980"),
        (Conditions(sm_clock_mhz=1980.0), 1500.0, "the GPU ran at 1980 MHz, the baseline's training at 1500"),
        (Conditions(sm_clock_mhz=1900.0), 1980.0, ""),
    ],
    ids=["unknown", "nothing seen", "at full speed", "capped as usual", "halved", "low without a reason", "for a moment", "slowed down", "slower than the baseline",
         "faster than the baseline", "as the baseline"],
)  # fmt: skip
def test_a_slow_gpu_is_one_plain_sentence(seen: Conditions | None, base: float | None, said: str) -> None:
    assert slowness(seen, Conditions(sm_clock_mhz=base) if base else None, wall=True) == said


def test_cpu_time_that_others_took_matters_where_wall_time_is_the_budget() -> None:
    busy = Conditions(other_cpu_share=0.4)
    assert slowness(busy, None, wall=True) == "other processes took 40% of the machine's CPU time"
    assert slowness(busy, None, wall=False) == slowness(Conditions(other_cpu_share=0.2), None, wall=True) == ""
    assert slowness(busy.model_copy(update={"before": TOP}), None, wall=True) == "", "a GPU trains on"
