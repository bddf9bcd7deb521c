"""Options that several commands of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Tag = click.option("--tag", help="The study's name. Default: the newest one.")
Project = click.option("--project", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The project's folder.")
AsJson = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")


def budget_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Flags that say how much."""
    command = click.option("--deadline", metavar="HH:MM", help="Local time to be done by.")(command)
    command = click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="At most this many hours.")(command)
    command = click.option("--dollars", type=click.FloatRange(min=0, min_open=True), help="At most this much for calls of models.")(command)
    return click.option("--trials", type=click.IntRange(min=1), help="At most this many trials after the baseline.")(command)
