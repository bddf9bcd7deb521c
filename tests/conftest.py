"""Fixtures of all tests: locks and data of their own, so that a test never meets a running study of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.execution.process import adopt_orphans
from harness.execution.sandbox import levels
from harness.execution.sandbox.box import Sandbox
from harness.proposers import asking
from tests import cages, orphans, projects


@pytest.fixture(autouse=True)
def _no_dead() -> Iterator[None]:
    """First of all fixtures, so that it ends last: what a test left dead makes no later look at the processes slower."""
    yield
    orphans.buried()


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_LOCKS", str(tmp_path / "locks"))
    monkeypatch.delenv("RATCHET_CRASH_AT", raising=False)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no profile of the person who runs the tests, no pauses between tries."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.01)


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes stub projects below the test's folder."""
    count = iter(range(100))
    yield lambda **options: projects.make_project(tmp_path / f"project{next(count)}", **options)


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    """One stub project."""
    return make_project()


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    """What this machine holds for a project in the test's folder."""
    adopt_orphans()
    found = levels.find(cages.wanted(cages.project(tmp_path / "project")))
    if found.level == "none":
        pytest.skip(f"no sandbox on this machine: {'; '.join(found.refused)}")
    return found.sandbox


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with the prepared `cpu` profile; only to be read."""
    import prepare

    root = tmp_path_factory.mktemp("data")
    prepare.prepare("cpu", str(root))
    return root


@pytest.fixture(scope="session")
def data(pristine: Path) -> Any:
    """The same, opened."""
    import prepare

    return prepare.Data.open("cpu", str(pristine))
