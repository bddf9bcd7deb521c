"""Importing only defines: no module of the harness pulls in what takes seconds, and the command line starts with little."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.projects import ROOT

HEAVY = ("torch", "numpy", "anthropic", "matplotlib", "optuna", "apprise")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in (ROOT / "harness").rglob("*.py")
)
WITH_GIT = ("harness.cli", "harness.graph.ratchet", "harness.control")
PROBE = """
import importlib, json, os, sys
import psutil, pydantic, tomli
before, there = set(sys.modules), (sorted(os.listdir('.')), dict(os.environ))
import harness.artifacts.events, harness.rules
for name in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    importlib.import_module(name)
    assert (sorted(os.listdir('.')), dict(os.environ)) == there, name
    print(json.dumps([name, sorted({m.split('.')[0] for m in set(sys.modules) - before})]))
    sys.stdout.flush()
    os._exit(0)
"""


def imported(*modules: str) -> dict[str, set[str]]:
    """What importing each module brings in beyond pydantic, psutil and tomli, each in a fork of a fresh interpreter that knows the nouns."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, *modules], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {name: set(found) for name, found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def everything() -> dict[str, set[str]]:
    return imported(*(name for name in MODULES if name != "harness.__main__"))


def test_no_module_imports_what_takes_seconds(everything: dict[str, set[str]]) -> None:
    assert {name: found & set(HEAVY) for name, found in everything.items() if found & set(HEAVY)} == {}


@pytest.mark.parametrize(
    "layer", ["harness.errors", "harness.trial", "harness.rules", "harness.artifacts", "harness.execution", "harness.evaluation"]
)
def test_the_lower_planes_know_neither_git_nor_pictures_nor_the_driver(everything: dict[str, set[str]], layer: str) -> None:
    for name, found in everything.items():
        if name == layer or name.startswith(f"{layer}."):
            assert not found & {"git", "rich", "pynvml", "click"}, name


def test_only_the_ratchet_and_what_uses_it_import_git(everything: dict[str, set[str]]) -> None:
    with_git = {name for name, found in everything.items() if "git" in found}
    assert "harness.graph.ratchet" in with_git
    assert [name for name in with_git if not name.startswith((*WITH_GIT, "harness.views"))] == []


def test_the_command_line_starts_without_pictures_tables_and_git() -> None:
    assert not imported("harness.cli")["harness.cli"] & {"matplotlib", "rich", "git", *HEAVY}
