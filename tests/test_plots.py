"""The picture: drawn for every prefix of a night, readable limits, labels that do not lie on each other."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.artifacts.events import Event
from harness.artifacts.study import Study
from harness.views import plots
from tests import study_factory as make


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG") and data.rstrip().endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("trials", [0, 1, 9, 125])
def test_a_night_is_a_picture_of_1200_by_700(tmp_path: Path, trials: int) -> None:
    plots.progress(make.study(trials), tmp_path / "progress.png")
    assert size_of(tmp_path / "progress.png") == (1200, 700)
    assert [p.name for p in tmp_path.iterdir()] == ["progress.png"]


def odd_studies() -> dict[str, Study]:
    def after(*steps: Iterable[Event]) -> Study:
        return make.fold([event for step in steps for event in step])

    one, two, three, four = (make.Night() for _ in range(4))
    return {
        "empty": Study(),
        "started": make.fold([one.start()]),
        "baseline failed": after([two.start()], two.baseline(fails=True)),
        "crash first": after([three.start()], three.baseline(), three.candidate(failure=0)),
        "no keep, terrible": after([four.start()], four.baseline(), four.candidate(effect=-50.0), four.candidate(effect=-0.02)),
        "higher is better": make.study(60, of=make.Night(direction="higher", metric="accuracy $x_1$", seed=3)),
        "title with mathematics": make.fold(titled("$\\frac{1}{0 $ %")),
    }


def titled(title: str) -> list[Event]:
    night = make.Night()
    return [night.start(), *night.baseline(), *night.candidate(effect=0.1, title=title)]


@pytest.mark.parametrize("name", odd_studies())
def test_odd_histories_have_a_picture(tmp_path: Path, name: str) -> None:
    plots.progress(odd_studies()[name], tmp_path / "p.png")
    assert size_of(tmp_path / "p.png") == (1200, 700)


def test_a_terrible_trial_does_not_squash_the_picture() -> None:
    study = make.study(0)
    low, high = plots.limits(study, [1.54, 1.53, 1.52], [1.535, 1.54, 1.545, 9.0])
    assert low < 1.52 and 1.54 < high < 1.6


def test_limits_hold_the_good_side_open_whichever_way_is_better() -> None:
    higher = make.study(0, of=make.Night(direction="higher"))
    low, high = plots.limits(higher, [0.5, 0.6], [0.55, 0.01])
    assert high > 0.6 and 0.3 < low < 0.5


def test_a_label_goes_to_the_nearest_free_place_or_nowhere() -> None:
    frame = (0.0, 0.0, 400.0, 400.0)
    first = plots._free_spot((200.0, 300.0, 100.0, -1.0), [], frame)
    assert first is not None and first[3] < 300
    second = plots._free_spot((200.0, 300.0, 100.0, -1.0), [first], frame)
    assert second is not None and not plots._overlap(first, second)
    assert plots._free_spot((200.0, 300.0, 100.0, -1.0), [frame], frame) is None


def test_matplotlibs_global_state_is_not_touched(tmp_path: Path) -> None:
    plots.progress(make.study(3), tmp_path / "p.png")
    assert "matplotlib.pyplot" not in sys.modules
