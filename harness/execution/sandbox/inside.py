"""Takes the plan that `box` made and enters: namespaces if asked, then limits, another user, no capabilities, Landlock, the filter."""

import os
import resource

from harness.execution.sandbox import kernel, landlock, namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` costs more than everything else here
    from typing import Any

FILE_BYTES, PROCESSES = resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC
SIGKILL = 9


def enter(plan: "dict[str, Any]") -> None:
    """Returns in the process that is to become the candidate; raises `OSError` where the kernel refuses a step."""
    around: tuple[int, ...] = ()
    if plan["cgroup"]:
        _join(plan["cgroup"])
    if plan["namespaces"]:
        around = namespaces.separate(plan)
        namespaces.build(plan)
    os.chdir(plan["folder"])
    _confine(plan)
    if plan["namespaces"]:
        namespaces.stand_in(plan, *around)


def _confine(plan: "dict[str, Any]") -> None:
    """In this order: what needs power first, then the power is given away, then the ways to get it back are closed."""
    for what, value in plan["limits"].items():
        _limit(what, value)
    if plan["uid"] is not None:
        os.setgroups([])
        os.setresgid(plan["uid"], plan["uid"], plan["uid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)  # a change of user forgets it
        if not plan["namespaces"] and os.getppid() != plan["parent"]:
            os._exit(137)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(plan["grants"])
    if plan["filter"]:
        kernel.load_filter(plan["filter"])


def _limit(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _join(group: str) -> None:
    descriptor = os.open(f"{group}/cgroup.procs", os.O_WRONLY)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)
