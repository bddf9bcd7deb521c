"""What a job may read: the system's libraries, the interpreter with its packages, the launcher of the run command, and the CUDA devices if it trains on one.

Folders are named by where they lie; a folder of the user's that happens to lie inside one of them is covered up.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/localtime", "/etc/nvidia", "/etc/OpenCL", "/etc/vulkan", "/etc/os-release", "/sys/devices/system", "/nix/store", "/gnu/store",
)  # fmt: skip
NODES = ("null", "zero", "full", "random", "urandom")
GPU_NODES = ("nvidia*", "nvidia-caps/*", "dxg")
GPU_READS = ("/sys", "/usr/lib/wsl")
MOST_PATHS = 1000
BESIDE_THE_PATH = ("LD_LIBRARY_PATH", "CUDA_HOME")


@dataclass(frozen=True)
class View:
    """Paths to read, symbolic links to make again, device nodes, paths inside them that must not be seen, and folders of which only the names may be seen."""

    reads: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    masks: tuple[str, ...]
    names: tuple[str, ...] = ()


def of_this_machine(launchers: Iterable[str], hidden: Sequence[Path], gpu: bool, mounts: bool = True, other_user: bool = False) -> View:
    """For jobs that are started with one of `launchers`; `hidden` are the project, the data, the homes.

    Without mounts nothing can be covered up, so a folder around something hidden is taken apart into what may be read.
    With mounts, for another user, a folder that is closed to others, such as `mktemp -d` makes, is taken apart: what it holds is named, and the sandbox makes it anew.
    """
    wanted = [
        *SYSTEM,
        *interpreter(),
        *(str(step) for launcher in launchers for step in _steps(Path(launcher))),
        *(GPU_READS if gpu else ()),
    ]
    for name in BESIDE_THE_PATH:
        wanted += [part for part in os.environ.get(name, "").split(":") if part.startswith("/")]
    links = {path: str(Path(path).readlink()) for path in SYSTEM if Path(path).is_symlink() and Path(path).is_dir()}
    reads = [path for path in dict.fromkeys(wanted) if path not in links and Path(path).exists() and path != "/"]
    reads = [path for path in reads if not any(_below(path, other) for other in [*reads, *links] if other != path)]
    covered = {str(path) for path in hidden if any(_below(str(path), read) for read in reads)}
    covered = {path for path in covered if not any(_below(path, other) for other in covered - {path})}
    masks = sorted(path for path in covered if Path(path).exists() and not any(_below(read, path) for read in _needed()))
    names: set[str] = set()
    if not mounts:
        reads, names = _around(reads, covered)
    elif other_user:
        reads, more = _taken_apart(reads)
        links |= more
    return View(tuple(sorted(reads)), tuple(sorted(links.items())), tuple(devices(gpu)), tuple(masks), tuple(sorted(names)))


def interpreter() -> list[str]:
    """The folders of this interpreter: its environment, what that was made from, and its packages; a file where it is reached over links."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *site.getsitepackages()]
    return [*dict.fromkeys(folders), *(str(step) for step in _steps(Path(sys.executable)))]


def devices(gpu: bool) -> list[str]:
    """Device nodes that a job may open."""
    nodes = [f"/dev/{name}" for name in NODES]
    return nodes + [str(path) for pattern in GPU_NODES if gpu for path in sorted(Path("/dev").glob(pattern)) if not path.is_dir()]


def _steps(path: Path) -> list[Path]:
    """A file and every file on the way that its links lead."""
    steps = [path]
    while path.is_symlink() and len(steps) < 40:
        path = Path(os.path.normpath(path.parent / path.readlink()))
        steps.append(path)
    return steps


def _around(reads: list[str], covered: set[str]) -> tuple[list[str], set[str]]:
    """What may be read around the covered paths, and the folders on the way to them."""
    found, names, queue = [], set(), list(reads)
    while queue:
        path = queue.pop()
        if path in covered:
            continue
        if any(_below(hidden, path) for hidden in covered):
            names.add(path)
            queue += [str(entry) for entry in Path(path).iterdir()]
        else:
            found.append(path)
    return found, names


def _taken_apart(reads: list[str]) -> tuple[list[str], dict[str, str]]:
    """The same with closed folders replaced by their entries, and the links among those; a file that is closed itself stays closed."""
    found: list[str] = []
    links: dict[str, str] = {}
    queue = [Path(path) for path in reads]
    while queue:
        path = queue.pop()
        if path.is_symlink() and str(path) not in reads:
            links[str(path)] = str(path.readlink())
        elif path.is_dir() and path.stat().st_mode & 0o005 != 0o005 and len(found) < MOST_PATHS:
            queue += path.iterdir()
        else:
            found.append(str(path))
    return found, links


def _needed() -> list[str]:
    return [folder for folder in interpreter() if Path(folder).is_dir()]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
