"""The throw-away folder in which an agent edits: the files in scope and nothing else of the project, and what came back of them.

It lies in the system's temporary folder, so that an agent that looks upwards finds no repository, no history, no data and no instructions. What it leaves
is read only after everything of it is dead, never through a link, and never more than a text file may have.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.artifacts import trial_dir
from harness.errors import InfrastructureFault, ProposalRefused
from harness.execution.process import end_orphan

PREFIX = "ratchet-agent-"
STUDY = "STUDY.md"
LITTER = (".git", ".claude", ".codex", ".gemini", ".opencode", ".aider", ".pytest_cache", ".mypy_cache", ".ruff_cache")
MAX_FILE_BYTES = 1024 * 1024  # ten times what the guard admits
MAX_FILES = 5000
SHOWN = 20


class Workroom:
    """One folder for one call. Around `work` lie what the agent is given and what it prints, where it need not look."""

    def __init__(self, files: Mapping[str, str], prompt: str, repository: bool) -> None:
        self.place = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.work, self.scratch = self.place / "work", self.place / "tmp"
        self.prompt, self.log, self.last = self.place / "prompt.md", self.place / "output", self.place / "last.txt"
        self._given = {STUDY: prompt, **files}
        self._scope = tuple(files)
        self.work.mkdir()
        self.scratch.mkdir()
        for path, text in [(self.prompt, prompt), *((self.work / name, text) for name, text in self._given.items())]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        self.prompt.chmod(0o400)
        if STUDY not in files:
            (self.work / STUDY).chmod(0o400)
        if repository:
            self._make_repository()

    def activity(self) -> tuple[int, int, int]:
        """Changes with every write of the agent: to a file or to its output."""
        facts = [found for _, found in self._walk(litter=True)]
        with contextlib.suppress(OSError):
            facts.append(self.log.lstat())
        return len(facts), sum(found.st_size for found in facts), sum(found.st_mtime_ns for found in facts)

    def changes(self) -> dict[str, str | None]:
        """What is not as it was handed out: in scope the new text or `None` for gone, outside the scope (at most 20 paths) a word of what it is.

        A file in scope that is no plain text file any more is a `ProposalRefused`.
        """
        if self.work.is_symlink() or not self.work.is_dir():
            raise ProposalRefused("no_file", "the agent removed the folder it was given; it may edit the files in scope only")
        found = dict(self._walk(litter=False))
        texts: dict[str, str | None] = {name: self._text(name) if name in found else None for name in self._scope}
        changed = {name: text for name, text in texts.items() if text != self._given[name]}
        foreign = sorted(name for name in found if name not in self._given or (name == STUDY and not self._as_given(found[name])))
        outside: dict[str, str | None] = {
            shown(name): f"[{kind(found[name])} that the agent left]" for name in foreign[:SHOWN] if name not in texts
        }
        if STUDY not in found:
            outside[STUDY] = None
        return {**outside, **changed}

    def drop(self) -> None:
        """Remove it all, whatever the agent made of it."""
        trial_dir.remove(self.place)

    def _walk(self, litter: bool) -> Iterator[tuple[str, os.stat_result]]:
        """Everything below the work folder but folders, unfollowed; a folder counts where a file in scope should be, or when it cannot be read."""
        queue, count = [""], 0
        while queue and count < MAX_FILES:
            here = queue.pop()
            for name, found in self._entries(here, unlock=not litter):
                count += 1
                if not litter and is_litter(name):
                    continue
                if stat.S_ISDIR(found.st_mode):
                    queue.append(name)
                if not stat.S_ISDIR(found.st_mode) or name in self._scope:
                    yield name, found

    def _entries(self, here: str, unlock: bool) -> list[tuple[str, os.stat_result]]:
        """Names and facts of one folder; what vanished meanwhile or is too deep to name is left out. Unlocks only what nothing alive can exchange."""
        folder = self.work / here
        try:
            if unlock and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                folder.chmod(0o700)
            with os.scandir(folder) as entries:
                return [(f"{here}/{entry.name}" if here else entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return []

    def _text(self, name: str) -> str:
        path = self.work / name
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise ProposalRefused("no_file", f"{name} came back as a {kind(facts)}; it must stay a plain file")
        if facts.st_size > MAX_FILE_BYTES:
            raise ProposalRefused("too_big", f"{name} came back with {facts.st_size:,} bytes; keep it small")
        try:
            return path.read_bytes().decode()
        except UnicodeDecodeError:
            raise ProposalRefused("characters", f"{name} came back with bytes that are no UTF-8 text") from None
        except OSError as error:
            raise ProposalRefused("no_file", f"{name} cannot be read back: {error.strerror}") from None

    def _as_given(self, facts: os.stat_result) -> bool:
        """STUDY.md is still the file that was handed out."""
        given = self._given[STUDY].encode()
        return stat.S_ISREG(facts.st_mode) and facts.st_size == len(given) and (self.work / STUDY).read_bytes() == given

    def _make_repository(self) -> None:
        """An empty one of its own, for an agent that refuses to work without."""
        command = ["git", "-c", "init.defaultBranch=main", "init", "-q", "--template=", str(self.work)]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.scratch), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InfrastructureFault(f"git could not make a throw-away repository for the agent: {done.stderr.strip()[:200]}")


def is_litter(name: str) -> bool:
    """What agents and interpreters leave behind anywhere they work."""
    first, last = name.split("/", 1)[0], name.rsplit("/", 1)[-1]
    return first in LITTER or first.startswith(".aider.") or last == "__pycache__" or last.endswith(".pyc")


def kind(facts: os.stat_result) -> str:
    """A file's kind in words."""
    if stat.S_ISLNK(facts.st_mode):
        return "symbolic link"
    if stat.S_ISDIR(facts.st_mode):
        return "folder"
    if stat.S_ISREG(facts.st_mode):
        return "file with other names" if facts.st_nlink > 1 else f"file of {facts.st_size:,} bytes"
    return "special file"


def shown(name: str) -> str:
    """A path that UTF-8 can hold."""
    return name.encode("utf-8", "backslashreplace").decode()[:300]


def end_left_over(folder: Path) -> None:
    """End the call that a killed harness left running in this folder, with everything it started, and remove its room."""
    left = folder / "running.json"
    if not left.exists():
        return
    facts = json.loads(left.read_bytes())
    end_orphan(facts["pid"], facts["started"], facts["boot"], facts["marker"])
    if Path(facts["place"]).name.startswith(PREFIX):
        trial_dir.remove(Path(facts["place"]))
    left.unlink()


def start_of(path: Path, limit: int) -> bytes:
    """A file that the agent may have exchanged: only what is still a plain one is read."""
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(limit)
