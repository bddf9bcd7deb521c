"""Runs a command as a machine would that is not this one: `python as_other.py [--plain] [--readable] [--refused] COMMAND…`. Needs root but for `--refused`.

--plain    as user 1000, with the interpreter where that user can read it
--readable as the same user, with the interpreter where everybody can read it
--refused  with namespaces and mounts refused by a seccomp filter, as Docker's default profile does
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from harness.execution.sandbox import filters, kernel

ROOT = Path(__file__).parent.parent
USER = 1000
DOCKER = ("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr")


def uncover() -> None:
    """In a mount namespace of its own: what lies below a closed folder becomes readable, and the rest of that folder is gone."""
    kernel.unshare(kernel.NEW_NS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    wanted = {Path(sys.prefix), Path(sys.base_prefix), ROOT}
    closed = {parent for path in wanted for parent in path.parents if not parent.stat().st_mode & 0o001}
    for folder in sorted(closed, key=lambda path: len(path.parts))[:1]:
        inner = {path: os.open(path, os.O_PATH) for path in wanted if folder in path.parents}
        kernel.mount("tmpfs", str(folder), "tmpfs", 0, "mode=755")
        for path, descriptor in inner.items():
            path.mkdir(parents=True, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{descriptor}", str(path), "", kernel.MS_BIND | kernel.MS_REC)


def become(user: int) -> None:
    """Another user for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def refuse() -> None:
    """What Docker's default profile refuses a process without CAP_SYS_ADMIN."""
    machine = os.uname().machine
    which = list(filters.ARCHITECTURES).index(machine)
    code = [(0x20, 0, 0, 0)]
    for name in DOCKER:
        code += [(0x15, 0, 1, filters.DENIED[name][which] or 0), (0x06, 0, 0, 0x00050000 | 1)]
    code += [(0x15, 0, 1, 435), (0x06, 0, 0, 0x00050000 | 38), (0x15, 0, 4, filters.SPECIAL["clone"][which]), (0x20, 0, 0, 16)]
    code += [(0x45, 0, 1, filters.NEW_ANYTHING), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FFF0000)]
    if os.getuid():
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.load_filter(b"".join(struct.pack("<HBBI", *one) for one in code))


def main(words: list[str]) -> None:
    """Become it, then the command."""
    options = [word for word in words if word in ("--plain", "--readable", "--refused")]
    command = words[len(options) :]
    if {"--plain", "--readable"} & set(options):
        uncover()
    if "--plain" in options:
        become(USER)
    if "--refused" in options:
        refuse()
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
