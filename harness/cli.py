"""The command line: with `cli_inbox.py` the only file that prints a result or exits. Flags say where and how much, never what counts as better.

Exit codes: 0 as planned · 2 something to correct (arguments, rules, repository, data) · 3 too many crashes or refusals in a row, an answer that
says stop, or nobody left to propose · 4 no baseline, or no trial could be measured · 65 damaged journal · 66 the branch was moved by someone else · 74 a durable write failed ·
75 machine or lock · 130 and 143 ended by INT or TERM · 1 a bug of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.artifacts import snapshot as snapshots
from harness.artifacts.trial_dir import StudyDir, studies
from harness.cli_inbox import answer, inbox
from harness.errors import RatchetError, StudyUnknown
from harness.options import AsJson, Project, Tag, budget_flags
from harness.views.which import folder_of, loaded


@click.group(commands=[answer, inbox], context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ratchet")
def cli() -> None:
    """An autoresearch ratchet: one file to edit, a budget, and a gain that is measured by code the edits cannot touch."""


@cli.command()
@click.option("--tag", required=True, help="A name for the study: its branch is autoresearch/TAG, its folder runs/TAG.")
@click.option("--program", type=click.Path(path_type=Path, dir_okay=False), help="The rules. Default: program.md of the project.")
@click.option("--proposer", help="Where changes come from: search, scripted, command or anthropic. Default: program.md's, else search.")
@click.option("--seed", type=int, help="For the search proposer. Default: 0.")
@click.option("--edits", type=click.Path(path_type=Path, dir_okay=False), help="For the scripted proposer: a TOML or JSON list of edits.")
@click.option("--commit", is_flag=True, help="Commit a modified train.py and prepare.py first.")
@budget_flags
@Project
def run(
    tag: str, program: Path | None, proposer: str | None, seed: int | None, edits: Path | None, commit: bool, project: Path, **amounts: Any
) -> None:
    """Start a new study and run it to its end."""
    from harness.control.limits import checked
    from harness.control.opening import Wishes, start

    given = {"seed": str(seed) if seed is not None else None, "edits": str(edits.resolve()) if edits else None}
    options = {name: value for name, value in given.items() if value is not None}
    wishes = Wishes(
        project=project.resolve(), tag=tag, program=program or project.resolve() / "program.md", proposer=proposer, options=options, commit=commit,
        **checked(amounts),
    )  # fmt: skip
    _watched(StudyDir(project.resolve(), tag), lambda company: start(wishes, company))


@cli.command()
@click.option("--program", type=click.Path(path_type=Path, dir_okay=False), help="The rules. Default: program.md of the project.")
@click.option("--proposer", help="Where changes come from. Default: as program.md says, else search.")
@click.option("--offline", is_flag=True, help="Do not ask the model's server.")
@budget_flags
@Project
@AsJson
def plan(program: Path | None, proposer: str | None, offline: bool, project: Path, as_json: bool, **amounts: Any) -> None:
    """What a night would come to, before it starts; changes nothing. Exit code 2 when `ratchet run` would refuse; a device in use is only said."""
    from harness.control.limits import checked
    from harness.control.outlook import look
    from harness.views import plan as view

    seen = look(project.resolve(), program or project.resolve() / "program.md", proposer, checked(amounts), offline)
    click.echo(json.dumps(view.as_dict(seen)) if as_json else view.as_text(seen))
    sys.exit(2 if seen.refusals else 0)


@cli.command()
@Tag
@budget_flags
@Project
def resume(tag: str | None, project: Path, **amounts: Any) -> None:
    """Go on with a study, whatever ended it; new amounts replace the old ones."""
    from harness.control.limits import checked
    from harness.control.opening import resume as go_on

    folder = folder_of(project, tag)
    _watched(folder, lambda company: go_on(folder.project, folder.tag, company, **checked(amounts)))


@cli.command()
@Tag
@Project
@click.option("--now", is_flag=True, help="End the running trial too, instead of waiting for it.")
def stop(tag: str | None, project: Path, now: bool) -> None:
    """Ask a running study to stop after the current trial."""
    from harness.execution.device import read_holder
    from harness.execution.signals import NOW

    folder = folder_of(project, tag)
    holder = read_holder(folder.lock)
    if holder is None:
        raise StudyUnknown(f"no harness is running the study {folder.tag!r}")
    if now:
        with suppress(ProcessLookupError):
            os.kill(int(holder["pid"]), NOW)
    else:
        folder.stop_request.touch()
    click.echo(f"asked process {holder['pid']} to stop {'now' if now else 'after the current trial'}")


@cli.command()
@Tag
@Project
@AsJson
def status(tag: str | None, project: Path, as_json: bool) -> None:
    """How a study stands."""
    from harness.execution.device import read_holder
    from harness.views import status as view

    if _none_yet(project, tag, as_json):
        return
    folder = folder_of(project, tag)
    study = snapshots.load(folder.journal, folder.snapshot, summary=True)
    alive = read_holder(folder.lock) is not None
    click.echo(json.dumps(view.as_dict(study, alive)) if as_json else view.as_text(study, alive))


@cli.command()
@click.argument("trial", type=int)
@Tag
@Project
@AsJson
def show(trial: int, tag: str | None, project: Path, as_json: bool) -> None:
    """Everything about one trial: change, readings, verdict and what it rests on, files."""
    from harness.views import show as view

    folder, study = loaded(project, tag)
    row = study.row(trial)
    click.echo(row.model_dump_json() if as_json else view.as_text(row, study, folder))


@cli.command()
@Tag
@Project
@AsJson
def log(tag: str | None, project: Path, as_json: bool) -> None:
    """All trials, newest first, with commit, status and reading; between them what was refused, and the edits of program.md."""
    from harness.graph import lineage
    from harness.views import show as view

    _, study = loaded(project, tag)
    entries = lineage.log(study)
    click.echo(json.dumps([entry.model_dump(mode="json") for entry in entries]) if as_json else view.log_text(entries, study))


@cli.command()
@Tag
@Project
@AsJson
@click.option("--tsv", type=click.Path(path_type=Path, dir_okay=False), help="Report on any upstream results.tsv instead of a study.")
@click.option("--metric", help="With --tsv: the column that holds the metric, when its name does not say so.")
def report(tag: str | None, project: Path, as_json: bool, tsv: Path | None, metric: str | None) -> None:
    """Write report.md and progress.png, and print the report."""
    from harness.views import status as status_view
    from harness.views import upstream, watch

    if tsv is not None:
        table = upstream.read_table(tsv, metric)
        click.echo(json.dumps(upstream.as_dict(table)) if as_json else upstream.summary(table))
        return
    if _none_yet(project, tag, as_json):
        return
    folder, study = loaded(project, tag)
    page, picture = watch.write_page(study, folder)
    told = {**status_view.as_dict(study), "report": str(page), "picture": str(picture)}
    click.echo(json.dumps(told) if as_json else page.read_text(encoding="utf-8"))


@cli.command()
@Tag
@Project
@AsJson
def verify(tag: str | None, project: Path, as_json: bool) -> None:
    """Check a study against its journal: chain, snapshot, refs, branch, measured bytes, table. Exit code 1 when something is wrong."""
    from harness.control.verification import Finding, check
    from harness.views import results

    folder = folder_of(project, tag)
    findings, problem = check(folder), results.problem(folder)
    findings += [Finding(what="table", ok=not problem, detail=problem or "as the journal has it")]
    lines = [f"{'ok ' if found.ok else 'BAD'}  {found.what}: {found.detail}" for found in findings]
    click.echo(json.dumps([found.model_dump() for found in findings]) if as_json else "\n".join(lines))
    sys.exit(0 if all(found.ok for found in findings) else 1)


@cli.command()
@Project
@AsJson
def doctor(project: Path, as_json: bool) -> None:
    """Attack the sandbox that candidate code would get here: one line a property. Exit code 1 when it is not what the rules accept."""
    from harness.control.examination import examine
    from harness.views import doctor as view

    seen = examine(project.resolve())
    click.echo(json.dumps(view.as_dict(seen)) if as_json else view.as_text(seen))
    sys.exit(0 if seen.accepted else 1)


def _none_yet(project: Path, tag: str | None, as_json: bool) -> bool:
    if none := tag is None and not studies(project.resolve()):
        click.echo("{}" if as_json else "no study yet; `ratchet run --tag NAME` starts one")
    return none


def _watched(folder: StudyDir, go: Callable[[Any], Any]) -> None:
    """Run with console and signals; the last line printed says why it ended, the exit code too."""
    from harness.control.opening import Company
    from harness.views.watch import Watch

    watch = Watch(folder, sys.stdout, live=sys.stdout.isatty())
    company = Company(observe=watch.observe, on_point=watch.point)
    company.interrupts.install()
    try:
        ended = go(company)
    finally:
        watch.close()
    sys.exit(ended.exit_code)


def main() -> None:
    """Entry point: a fault of the user, the machine or the journal becomes one sentence and its exit code; a bug of ours a traceback."""
    try:
        cli(prog_name="ratchet")
    except RatchetError as error:
        with suppress(OSError):
            click.echo(f"ratchet: {error}", err=True)
        sys.exit(error.exit_code)
    finally:
        _forget_lost_terminal()


def _forget_lost_terminal() -> None:
    """A closed terminal must not change the exit code: what Python would still write at its end goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
