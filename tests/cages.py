"""Runs every program of `tests/attacks` in the sandbox that this process gets, or in none, and prints what each got as one JSON object.

`python -m tests.cages FOLDER [none]`: FOLDER becomes the project, with everything that an attacker could want. Also used by tests to start one program.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.execution.process import ProcessTree, adopt_orphans, clean_environment
from harness.execution.sandbox import levels
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.sandbox.levels import Request

ATTACKS = Path(__file__).parent / "attacks"
TWICE = ("leftovers", "shared_memory")
PIDS, SCRATCH_MB = 48, 16


def project(folder: Path) -> Path:
    """A project with a key, a journal, validation text and a git folder."""
    for path in (folder, folder / ".git" / "hooks", folder / "runs" / "t"):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
    for name in ("prepare.py", "results.tsv", ".git/config", "runs/t/journal.jsonl", "data.bin"):
        (folder / name).write_text("words\n")
    (folder / ".env").write_text("ANTHROPIC_API_KEY=sk-in-a-file\n")
    return folder


def wanted(folder: Path, accepted: str = "auto", **more: Any) -> Request:
    """The request of a study in that project."""
    return Request(project=folder, accepted=accepted, data=(folder / "data.bin",), scratch_mb=SCRATCH_MB, pids=PIDS, **more)


def run(
    box: Sandbox, program: Path, told: dict[str, Any], folder: Path, data: int | None = None, seconds: float = 30.0
) -> tuple[int, str, str]:
    """One program as a job: its exit code, what it printed, and the marker of its processes."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    shutil.copyfile(program, folder / program.name)
    (folder / program.name).chmod(0o644)
    box.admit(folder)
    marker, log = secrets.token_hex(16), folder.with_suffix(".log")
    command = [sys.executable, "-I", "-S", program.name, json.dumps(told)]
    keep = [] if data is None else [data]
    tree = ProcessTree(command, folder, clean_environment(folder / ".scratch", {"RATCHET_JOB": marker}), log, 1 << 16, keep, box)
    deadline = time.monotonic() + seconds
    while tree.poll() is None and time.monotonic() < deadline:
        tree.drain()
        time.sleep(0.002)
    code = tree.end(grace=0.2)
    assert tree.inside, log.read_text()
    return code, log.read_text(errors="replace"), marker


def carriers(marker: str) -> list[int]:
    """Living processes that carry a marker."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def forget(note: str) -> None:
    """Take away what was left where nothing stopped it."""
    for corner in map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/run")):
        if os.access(corner, os.W_OK):
            (corner / note).unlink(missing_ok=True)


def attack(box: Sandbox, folder: Path, home: Path) -> dict[str, str]:
    """What each program printed, for those that got through."""
    through = {}
    key, note = secrets.token_hex(16), f"note-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        service = folder / "docker.sock"
        for address in (str(service), f"\0{note}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        service.chmod(0o666)
        victim = subprocess.Popen(["sleep", "100"], env={"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": key})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        stack.callback(forget, note)
        data = os.open(folder / "data.bin", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, data)
        time.sleep(0.05)
        told = {
            "project": str(folder), "validation": str(folder / "data.bin"), "home": str(home), "key": key, "pid": victim.pid, "note": note, "pids": PIDS,
            "address": int(Path(f"/proc/{victim.pid}/maps").read_text().split("-")[0], 16), "port": listener.getsockname()[1],
            "service": str(service), "abstract": note, "shm_key": secrets.randbelow(1 << 30), "scratch_bytes": SCRATCH_MB << 20, "data_descriptor": data,
        }  # fmt: skip
        for program in sorted(ATTACKS.glob("[a-z]*.py")):
            name = program.stem
            code, said, marker = run(box, program, told, folder / "runs" / "t" / name, data)
            if name in TWICE:
                shutil.rmtree(folder / "runs" / "t" / name)
                code, said, marker = run(box, program, told, folder / "runs" / "t" / f"{name}-again", data)
            if code == 0 or carriers(marker):
                through[name] = said[-200:]
    return through


def main() -> None:
    """Find the sandbox, attack it, print the outcome."""
    adopt_orphans()
    folder, home = project(Path(sys.argv[1]) / "project"), Path(sys.argv[1]) / "home"
    home.mkdir(exist_ok=True)
    (home / "canary-in-home").touch()
    os.environ["HOME"] = str(home)
    found = levels.find(wanted(folder))
    box = OPEN if "none" in sys.argv[2:] else found.sandbox
    began = time.monotonic()
    through = attack(box, folder, home)
    print(json.dumps({
        "uid": os.getuid(), "level": box.level, "means": box.means.words if box.means else "", "missing": box.missing, "refused": found.refused,
        "through": through, "seconds": time.monotonic() - began,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
