"""Runs git: with a fixed configuration and identity through a private index, or as the user's own git would see the project. Decides nothing.

Every git runs in a session of its own, so that Ctrl-C reaches the harness and never a git in the middle of a write.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import RepositoryUnfit, StorageFault

CONFIG = {
    "core.fsync": "all",
    "core.hooksPath": os.devnull,
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgsign": "false",
    "safe.directory": "*",
}
USERS_CHOICE = ("core.autocrlf",)
IDENTITY = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Ratchet"), ("EMAIL", "ratchet@localhost"))
}


def without_git_variables(keep: str = "") -> dict[str, str]:
    """The environment without `GIT_*`, but with those that begin with `keep`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or (keep and name.startswith(keep))}


@contextmanager
def hidden_git_variables() -> Iterator[None]:
    """This process without `GIT_*`, which GitPython would otherwise follow to another repository."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


class Git:
    """One repository, by its git folder."""

    def __init__(self, git_dir: Path, index: Path) -> None:
        self.git_dir = git_dir
        self._environment = {
            **without_git_variables(), **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_INDEX_FILE": str(index.resolve()), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
        }  # fmt: skip
        self._command = ["git", f"--git-dir={git_dir}", *_settings(CONFIG)]

    def text(self, *arguments: str, data: bytes = b"") -> str:
        """What git printed, stripped."""
        return self.raw(*arguments, data=data).decode().strip()

    def raw(self, *arguments: str, data: bytes = b"") -> bytes:
        """What git printed; a failure is a `StorageFault`."""
        done = self._done(arguments, data)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise StorageFault(f"git {arguments[0]} failed in {self.git_dir}: {said.splitlines()[-1]}")
        return done.stdout

    def asked(self, *arguments: str) -> bytes | None:
        """What git printed, or `None` when it says no."""
        done = self._done(arguments)
        return done.stdout if done.returncode == 0 else None

    def _done(self, arguments: tuple[str, ...], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self._command, *arguments], env=self._environment, input=data, capture_output=True, check=False, start_new_session=True
        )


def as_user(project: Path, *arguments: str) -> tuple[bool, str]:
    """git in the user's checkout with the user's index and line endings, but without hooks; whether it worked, and what it said of a failure."""
    settings = {name: value for name, value in CONFIG.items() if name not in USERS_CHOICE}
    environment = {**without_git_variables("GIT_CONFIG"), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    known = all(_said(["git", "-C", str(project), "var", f"GIT_{who}_IDENT"], environment)[0] for who in ("AUTHOR", "COMMITTER"))
    return _said(["git", *_settings(settings), "-C", str(project), *arguments], environment if known else {**environment, **IDENTITY})


def users_blob(project: Path, name: str) -> str:
    """git's name for a working file as the user's own settings would store it; '' when it cannot be read. What git warns of does not matter."""
    environment = {**without_git_variables("GIT_CONFIG"), "LC_ALL": "C"}
    command = ["git", "-C", str(project), "hash-object", "--", name]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout.strip()


def utf8(raw: bytes, name: str) -> str:
    """A file's text; raises `RepositoryUnfit` when it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise RepositoryUnfit(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8 and commit") from None


def trusts(project: Path) -> tuple[bool, str]:
    """Whether the user's own git, with its own settings, works in `project`; else what it said."""
    return _said(["git", "-C", str(project), "rev-parse", "--git-dir"], {**without_git_variables("GIT_CONFIG"), "LC_ALL": "C"})


def version() -> str:
    """git's own version."""
    return subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def _said(command: list[str], environment: dict[str, str]) -> tuple[bool, str]:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, start_new_session=True
    )
    said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and not line.startswith("hint:")]
    return done.returncode == 0, said[0].strip() if said else f"exit code {done.returncode}"


def _settings(config: dict[str, str]) -> list[str]:
    return [part for name, value in config.items() for part in ("-c", f"{name}={value}")]
