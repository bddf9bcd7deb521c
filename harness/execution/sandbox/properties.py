"""The properties that a cage must have: what each attack stands for, who stops it, and what to do where nobody does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.execution.sandbox.box import Level, Means

Guard = Literal["files", "processes", "network", "kernel", "space", "count", "environment", "setup"]
BY: dict[tuple[Guard, bool], str] = {
    ("files", True): "read-only mounts, Landlock", ("files", False): "Landlock",
    ("processes", True): "process namespace", ("processes", False): "Landlock",
    ("network", True): "network namespace, system call filter", ("network", False): "system call filter, Landlock",
    ("kernel", True): "system call filter, no capabilities", ("kernel", False): "system call filter, no capabilities",
    ("space", True): "sized scratch space", ("space", False): "limit on one file",
    ("count", True): "limit of its user", ("count", False): "limit of its user",
    ("environment", True): "list of allowed variables", ("environment", False): "list of allowed variables",
    ("setup", True): "mounts", ("setup", False): "grants",
}  # fmt: skip
NAMESPACES = "allow user namespaces (Docker: a seccomp profile and AppArmor setting that permit them; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
LANDLOCK = "use Linux 6.12 or later with Landlock enabled, or allow user namespaces"
ROOT = "put interpreter and project where other users can read them, or allow namespaces"


@dataclass(frozen=True)
class Property:
    """One attack of `attacks.py`. `same_user` and `other_user`: whether the lower level may do without it."""

    name: str
    title: str
    guard: Guard
    advice: str
    same_user: bool = False
    other_user: bool = False


FIRST = (
    Property("packages", "interpreter, packages and launcher can be read", "setup", ROOT),
    Property("cuda", "the CUDA driver starts", "setup", "run `nvidia-modprobe -u -c=0` once outside, and check the device nodes in /dev"),
    Property("write_code", "its own code cannot be changed", "files", LANDLOCK),
    Property("add_code", "nothing can be added to its folder", "files", LANDLOCK),
    Property("write_project", "the project cannot be changed", "files", LANDLOCK),
    Property("change_mode", "modes and times of files outside cannot be changed", "files", NAMESPACES, same_user=True),
    Property("read_data", "validation data and other files cannot be read", "files", LANDLOCK),
    Property("see_files", "paths outside do not show whether they exist", "files", NAMESPACES, same_user=True, other_user=True),
    Property("list_home", "home and project cannot be listed", "files", LANDLOCK),
    Property("own_environment", "no key in its environment", "environment", "report this as a bug"),
    Property("other_environment", "no key in another process's environment", "processes", LANDLOCK),
    Property("trace", "processes outside cannot be traced", "processes", LANDLOCK),
    Property("read_memory", "memory outside cannot be read", "processes", LANDLOCK),
    Property("signal_harness", "processes outside cannot be signalled", "processes", LANDLOCK),
    Property("tcp", "no TCP", "network", "allow seccomp filters: Linux 4.14 or later"),
    Property("udp", "no UDP, no name look-up", "network", "allow seccomp filters"),
    Property("netlink", "no netlink", "network", "allow seccomp filters"),
    Property("vsock", "no socket to the machine's host", "network", "allow seccomp filters"),
    Property("unix_path", "sockets of services such as Docker's cannot be reached", "files", NAMESPACES, same_user=True, other_user=True),
    Property("unix_abstract", "abstract sockets cannot be reached", "network", LANDLOCK),
    Property("io_uring", "no io_uring", "kernel", "allow seccomp filters"),
    Property("keyring", "no kernel keyring", "kernel", "allow seccomp filters"),
    Property("kernel_corners", "no bpf, userfaultfd, perf", "kernel", "allow seccomp filters"),
    Property("user_namespace", "no new namespaces", "kernel", "allow seccomp filters"),
    Property("remount", "mounts cannot be changed", "kernel", "allow seccomp filters"),
    Property("write_sysctl", "kernel settings cannot be changed", "files", "run as a plain user, or let the job have a user of its own"),
    Property("set_clock", "the clock cannot be set", "kernel", "allow seccomp filters"),
    Property("leave", "", "files", ""),
    Property("daemon", "a daemon ends with its job", "processes", NAMESPACES),
)  # fmt: skip
SECOND = (
    Property("find", "nothing that a job wrote survives it", "files", LANDLOCK),
    Property("many_processes", "processes are counted", "count", "run as a plain user, or let the job have a user of its own", same_user=True),
    Property("big_file", "a file has a largest size", "space", "report this as a bug"),
    Property("big_scratch", "the scratch space has a size", "space", NAMESPACES, same_user=True, other_user=True),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What one attack got."""

    name: str
    title: str
    holds: bool
    by: str
    got: str
    advice: str


def judged(one: Property, means: Means, answer: str, got: str) -> Finding:
    """An attack's answer as a finding; the two checks that are no attack must have worked."""
    holds = (answer == "stopped") != (one.guard == "setup")
    by = BY[one.guard, means.namespaces] + (", another user" if means.uid is not None and one.guard in ("files", "processes") else "")
    return Finding(one.name, one.title, holds, by if holds else "nothing", got, "" if holds else one.advice)


def level_of(means: Means, findings: list[Finding]) -> Level:
    """Full when every attack was stopped behind namespaces; container when only what that level does without is open."""
    broken = {finding.name for finding in findings if not finding.holds}
    if not broken and means.namespaces:
        return "full"
    forgiven = {one.name for one in (*FIRST, *SECOND) if (one.other_user if means.uid is not None else one.same_user)}
    return "container" if broken <= forgiven else "none"
