"""How far a long preparation is, with an estimate of what is left: a bar on a terminal, a line at the start anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, total: int, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Gives a function that any thread may tell how much more is done."""
    if not sys.stderr.isatty():
        print(f"{title}: {f'{total / 1e6:,.1f} MB' if in_bytes else total}", file=sys.stderr, flush=True)
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount: list[ProgressColumn] = [DownloadColumn(), TransferSpeedColumn()] if in_bytes else [MofNCompleteColumn()]
    with Progress(TextColumn("{task.description}"), BarColumn(), *amount, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda more: progress.advance(task, more)
