"""The commands `inbox` and `answer`: what the study asks, and what a person says to it, from any terminal. Like `cli.py` it prints and decides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness.artifacts import snapshot as snapshots
from harness.artifacts.answers import InboxFiles
from harness.options import AsJson, Project, Tag
from harness.views.which import folder_of


@click.command()
@Tag
@Project
@AsJson
@click.option("--all", "everything", is_flag=True, help="The settled ones, too.")
def inbox(tag: str | None, project: Path, as_json: bool, everything: bool) -> None:
    """Open questions of a study, with what may be answered and what happens without an answer."""
    from harness.views import inbox as view

    folder = folder_of(project, tag)
    study = snapshots.load(folder.journal, folder.snapshot, summary=True)
    where = folder.inbox.relative_to(folder.project).as_posix()
    click.echo(json.dumps(view.as_dict(study, everything)) if as_json else view.as_text(study, everything, where))
    for number in sorted(study.inbox.open) if not as_json else ():
        if InboxFiles(folder.inbox).answer(number).exists():
            click.echo(
                f"Question {number} has an answer; the harness takes it after the current trial, a stopped study at `ratchet resume`."
            )


@click.command()
@click.argument("number", type=click.IntRange(min=1))
@click.argument("option")
@click.option("--note", default="", help="Why, or what else there is to say; it is journalled.")
@Tag
@Project
def answer(number: int, option: str, note: str, tag: str | None, project: Path) -> None:
    """Answer question NUMBER with one of its options, whether the harness runs or not."""
    from harness.control.answering import answer as put
    from harness.execution.clock import SystemClock
    from harness.execution.device import read_holder

    folder = folder_of(project, tag)
    study = snapshots.load(folder.journal, folder.snapshot, summary=True)
    question = put(folder, study, number, option, note, SystemClock().now())
    effect = next(one.effect for one in question.options if one.id == option)
    running = read_holder(folder.lock) is not None
    when = (
        "the harness takes it after the current trial"
        if running
        else f"no harness is running: `ratchet resume --tag {folder.tag}` takes it"
    )
    click.echo(f"question {number} of {folder.tag}: {option} ({effect}); {when}")
