"""Finds the strongest cage that this machine holds: the candidates from strong to weak, each attacked, the first that holds its level wins."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from harness.artifacts import durable
from harness.errors import UserFault
from harness.execution.process import adopt_orphans
from harness.execution.sandbox import cgroup, probe, view
from harness.execution.sandbox.box import Level, Means, Sandbox
from harness.execution.sandbox.probe import Unusable
from harness.execution.sandbox.properties import Finding, level_of

RANK: dict[str, int] = {"auto": 0, "none": 0, "container": 1, "full": 2}
FIRST_UID, UIDS = 63_100, 400
PACKAGE = Path(__file__).parents[2]  # with the corpus and its validation part, if Ratchet is installed among the packages


@dataclass(frozen=True)
class Request:
    """What the jobs of a study need and must not see. `accepted` is the rules' word."""

    project: Path
    accepted: str = "auto"
    data: tuple[Path, ...] = ()
    launchers: tuple[str, ...] = ()
    gpu: bool = False
    scratch_mb: int = 2048
    pids: int = 1024
    memory_mb: float | None = None


@dataclass(frozen=True)
class Found:
    """The cage, what each attack on it got, and why stronger ones were not to be had."""

    sandbox: Sandbox
    findings: tuple[Finding, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """Its level."""
        return self.sandbox.level


@cache
def find(request: Request) -> Found:
    """Attack one candidate after the other. Once a process for the same request: what holds at a study's start is what its trials get."""
    if request.accepted == "none":
        return Found(Sandbox(scratch_mb=request.scratch_mb, pids=request.pids), refused=("switched off by [sandbox] level = 'none'",))
    if not sys.platform.startswith("linux"):
        return Found(Sandbox(), refused=(f"{sys.platform} has none of the means that this sandbox is made of",))
    adopt_orphans()  # what detaches in an attack must come back to us, as it does during a study
    refused: dict[Means, str] = {}
    best = Found(Sandbox())
    with durable.disk_faults(), tempfile.TemporaryDirectory(prefix="ratchet-probe-") as scene:
        Path(scene).chmod(0o755)
        for number, means in enumerate(_candidates(request)):
            try:
                found = _attacked(request, means, Path(scene) / str(number))
            except Unusable as reason:
                refused[means] = f"{means.words}: {reason}"
                continue
            if RANK[found.level] > RANK[best.level]:
                best = found
            if found.level != "full":
                refused[means] = f"{means.words}: open were {', '.join(found.sandbox.missing) or 'nothing, yet it has no namespaces'}"
            if found.level == "full" or (found.level == "container" and not means.namespaces):
                break
    return Found(best.sandbox, best.findings, tuple(why for means, why in refused.items() if means != best.sandbox.means))


def require(found: Found, accepted: str) -> None:
    """Raise `UserFault` when the rules ask for more than this machine holds."""
    if RANK[found.level] < RANK[accepted]:
        why = found.refused[0] if found.refused else "no stronger one was found"
        raise UserFault(
            f"[sandbox] level = {accepted!r} is asked for and this machine holds {found.level!r} ({why[:200]}); `ratchet doctor` says what to do"
        )


def _attacked(request: Request, means: Means, scene: Path) -> Found:
    homes = {Path(pwd.getpwuid(os.getuid()).pw_dir), Path.home()}
    hidden = tuple(sorted({request.project, *homes} - {Path("/")}))
    data = (*request.data, *sorted((PACKAGE / "corpus").glob("*.xz")))
    seen = view.of_this_machine(
        (sys.executable, *_launchers(request)), [*hidden, *data, PACKAGE], request.gpu, means.namespaces, means.uid is not None
    )
    box = Sandbox(
        means=means,
        view=seen,
        scratch_mb=request.scratch_mb,
        pids=request.pids,
        gpu=request.gpu,
        groups=cgroup.base(),
        memory_mb=request.memory_mb,
    )
    findings = probe.attack(box, request.project, data, hidden, scene)
    missing = tuple(finding.name for finding in findings if not finding.holds)
    return Found(replace(box, level=level_of(means, findings), missing=missing), tuple(findings))


def _launchers(request: Request) -> Iterator[str]:
    return (found for name in request.launchers if (found := shutil.which(name)))


def _candidates(request: Request) -> list[Means]:
    """From strong to weak."""
    if os.getuid():
        return [Means(namespaces=True, user_namespace=True, uid=None), Means(namespaces=False, user_namespace=False, uid=None)]
    uid = _own_uid()
    candidates = [Means(namespaces=True, user_namespace=False, uid=uid), Means(namespaces=True, user_namespace=False, uid=None)]
    if uid is not None and _open_to_others(request.project):
        candidates.append(Means(namespaces=False, user_namespace=False, uid=uid))
    return [*candidates, Means(namespaces=False, user_namespace=False, uid=None)]


def _open_to_others(folder: Path) -> bool:
    """Whether another user can come as far as the jobs' folders below this one."""
    mask = os.umask(0)
    os.umask(mask)
    runs = folder / "runs"
    way = (runs if runs.exists() else folder, folder, *folder.parents)
    return not mask & 0o005 and all(path.stat().st_mode & 0o001 for path in way)


@cache
def _own_uid() -> int | None:
    """A user that nobody is, claimed for the life of this process by an abstract socket of its name."""
    for uid in range(FIRST_UID, FIRST_UID + UIDS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            pwd.getpwuid(uid)
        except KeyError:
            pass
        else:
            claim.close()
            continue
        try:
            claim.bind(f"\0ratchet-user-{uid}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return uid
    return None


_claims: list[socket.socket] = []
