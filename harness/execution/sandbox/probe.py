"""Attacks a cage with canaries: a secret file, a key in a process, listening sockets, notes for the next job. What counts is what the attacks got."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.execution.process import ProcessTree, clean_environment
from harness.execution.sandbox import properties
from harness.execution.sandbox.box import Sandbox
from harness.execution.sandbox.properties import Finding, Property

PATIENCE_SECONDS = 30.0
FEW_PROCESSES = 24
SMALL_MB = 2
LOG_BYTES = 1 << 18
CORNERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue")
ENTRY = "import sys; sys.path.insert(0, '.'); from harness.execution.sandbox.attacks import main; main()"
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class Unusable(Exception):
    """The cage could not be entered, or what ran inside did not answer."""


def attack(box: Sandbox, project: Path, data: Sequence[Path], hidden: Sequence[Path], scene: Path) -> list[Finding]:
    """All attacks, in two jobs one after the other; raises `Unusable` with the reason."""
    assert box.means is not None, "there is something to attack"
    scene.mkdir(mode=0o755)
    scene.chmod(0o755)
    with _canaries(scene, [project]) as told:
        told |= _targets(box, project, data, hidden)
        answers = _run(box, scene / "first", properties.FIRST, told)
        answers |= _run(replace(box, pids=FEW_PROCESSES, scratch_mb=SMALL_MB), scene / "second", properties.SECOND, told)
    answers.setdefault("daemon", ("stopped", "it is gone"))
    everything = [one for one in (*properties.FIRST, *properties.SECOND) if one.title and (box.gpu or one.name != "cuda")]
    return [properties.judged(one, box.means, *answers[one.name]) for one in everything]


def _targets(box: Sandbox, project: Path, data: Sequence[Path], hidden: Sequence[Path]) -> dict[str, Any]:
    reads = box.view.reads if box.view else ()
    homes = {str(path): [Path(read).relative_to(path).parts[0] for read in reads if path in Path(read).parents] for path in hidden}
    protected = next((str(path) for path in (project / "prepare.py", project / "program.md") if path.is_file()), None)
    return {
        "data": [str(path) for path in data], "homes": homes, "gpu": box.gpu, "needs": [*reads, sys.executable], "folders": [str(project)],
        "secret_names": [name for name in os.environ if SECRET_NAME.search(name)], "pids": FEW_PROCESSES, "file_bytes": SMALL_MB << 20,
        **({"protected": protected} if protected else {}),
    }  # fmt: skip


@contextmanager
def _canaries(scene: Path, folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """What an attack would find if nothing stopped it."""
    key, name = secrets.token_hex(16), f"ratchet-probe-{secrets.token_hex(8)}"
    canary = scene / "canary"
    canary.write_text("validation text\n")
    canary.chmod(0o644)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        inside = os.open(scene, os.O_PATH | os.O_DIRECTORY)  # a socket's path has at most 107 bytes, a temporary folder's may have more
        stack.callback(os.close, inside)
        for address in (f"/proc/self/fd/{inside}/service", f"\0{name}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        (scene / "service").chmod(0o777)
        bystander = subprocess.Popen([shutil.which("sleep") or "/bin/sleep", "60"], env={"RATCHET_CANARY_KEY": key})
        stack.callback(_forget_notes, name, folders)
        stack.callback(bystander.wait)
        stack.callback(bystander.kill)
        yield {
            "key": key, "canary": str(canary), "protected": str(canary), "pid": bystander.pid, "address": _address(bystander.pid),
            "port": listener.getsockname()[1], "unix_path": str(scene / "service"), "unix_abstract": name, "note": name,
        }  # fmt: skip


def _forget_notes(name: str, folders: Sequence[Path]) -> None:
    """Take away what a weak cage let an attack leave."""
    for folder in (*map(Path, CORNERS), *folders):
        with suppress(OSError):  # not there, or a file system that nobody writes
            (folder / name).unlink(missing_ok=True)


def _run(box: Sandbox, folder: Path, attacks: Sequence[Property], told: dict[str, Any]) -> dict[str, tuple[str, str]]:
    _furnish(folder)
    box.admit(folder)
    marker = secrets.token_hex(16)
    command = [sys.executable, "-I", "-S", "-c", ENTRY, json.dumps({**told, "attacks": [one.name for one in attacks]})]
    log = folder.with_suffix(".log")
    environment = clean_environment(folder / ".scratch", {"RATCHET_JOB": marker})
    tree = ProcessTree(command, folder, environment, log, LOG_BYTES, [], box)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while tree.poll() is None and time.monotonic() < deadline:
        tree.drain()
        time.sleep(0.002)
    code = tree.end(grace=0.0)
    said = log.read_text(errors="replace").splitlines()
    answers = {name: (answer, got) for name, answer, got in (line.split("\t", 2) for line in said if line.count("\t") >= 2)}
    if not tree.inside or code != 0 or len(answers) < len(attacks):
        raise Unusable(said[-1][:300] if said else f"exit code {code} and no word")
    if any(marker.encode() in _environment(pid) for pid in Path("/proc").glob("[0-9]*")):
        answers["daemon"] = ("open", "it lives on")
    elif "daemon" in answers:
        answers["daemon"] = ("stopped", "it is gone")
    return answers


def _furnish(folder: Path) -> None:
    """A job's folder with the attacks as the package they come from, all else empty."""
    package = folder / "harness" / "execution" / "sandbox"
    package.mkdir(parents=True)
    for path in (package, *package.parents[:2]):
        (path / "__init__.py").touch()
    for name in ("attacks.py", "kernel_attacks.py"):
        shutil.copyfile(Path(__file__).with_name(name), package / name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def _address(pid: int) -> int:
    """Where something readable lies in another process's memory."""
    try:
        return int(Path(f"/proc/{pid}/maps").read_text().split("-", 1)[0], 16)
    except (OSError, ValueError):
        return 0
