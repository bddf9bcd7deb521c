"""Runs inside a sandbox, as the candidate would, and tries what must not be possible. Prints one line an attack: name, `open` or `stopped`, what it got.

Nothing here does lasting harm where an attack succeeds: files are opened and not written, signals are number 0, the clock is set to nothing.
Standard library only; it is copied into a job's folder, with `kernel_attacks`, and started with `python -I -S`.
"""

import contextlib
import ctypes
import errno
import json
import os
import sys
import time

from harness.execution.sandbox import kernel_attacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = dict[str, Any]


def try_write_code(told: "Told") -> None:
    os.close(os.open(__file__, os.O_WRONLY))


def try_add_code(told: "Told") -> None:
    os.close(os.open("sitecustomize.py", os.O_WRONLY | os.O_CREAT))


def try_write_project(told: "Told") -> None:
    os.close(os.open(told["protected"], os.O_WRONLY))


def try_change_mode(told: "Told") -> None:
    os.chmod(told["canary"], 0o644)


def try_read_data(told: "Told") -> None:
    for path in told["data"]:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return
    os.close(os.open(told["canary"], os.O_RDONLY))


def try_see_files(told: "Told") -> None:
    os.stat(told["canary"])


def try_list_home(told: "Told") -> None:
    for path, expected in told["homes"].items():
        with contextlib.suppress(OSError):
            if set(os.listdir(path)) - set(expected):
                return
    raise OSError(0, "nothing is seen")


def try_own_environment(told: "Told") -> None:
    if not any(told["key"] in value or name in told["secret_names"] for name, value in os.environ.items()):
        raise OSError(0, "none is there")


def try_other_environment(told: "Told") -> None:
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and told["key"].encode() in _read(f"/proc/{name}/environ"):
                return
    raise OSError(0, "none can be read")


def try_trace(told: "Told") -> None:
    kernel_attacks.checked(kernel_attacks.libc.ptrace(16, told["pid"], None, None))
    kernel_attacks.libc.ptrace(17, told["pid"], None, None)


def try_read_memory(told: "Told") -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(told["address"], 8)
    kernel_attacks.call("readv", told["pid"], local, 1, remote, 1, 0)


def try_signal_harness(told: "Told") -> None:
    os.kill(told["pid"], 0)


def try_leave(told: "Told") -> None:
    """Leave the note wherever it can be left; `find` looks in the next job."""
    for folder in _corners(told):
        with contextlib.suppress(OSError):
            os.close(os.open(os.path.join(folder, told["note"]), os.O_WRONLY | os.O_CREAT, 0o666))
    with contextlib.suppress(OSError):
        kernel_attacks.call("shmget", kernel_attacks.SHM_KEY, 4096, 0o1666)


def try_find(told: "Told") -> None:
    for folder in _corners(told):
        if os.path.exists(os.path.join(folder, told["note"])):
            return
    segment = kernel_attacks.call("shmget", kernel_attacks.SHM_KEY, 4096, 0o666)
    kernel_attacks.libc.shmctl(segment, 0, None)


def try_daemon(told: "Told") -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)
    os.wait()


def try_packages(told: "Told") -> None:
    """No attack: what a job needs must be there."""
    for path in told["needs"]:
        os.close(os.open(path, os.O_RDONLY))


def try_cuda(told: "Told") -> None:
    """No attack: the driver must start."""
    if told["gpu"] and (code := ctypes.CDLL("libcuda.so.1").cuInit(0)):
        raise OSError(errno.ENODEV, f"cuInit says {code}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _said(error: OSError) -> str:
    return f"{errno.errorcode.get(error.errno or 0, '')} {error.strerror or ''}".strip()


def _corners(told: "Told") -> "list[str]":
    return ["/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue", os.environ["HOME"], os.environ["TMPDIR"], ".", *told["folders"]]


def main() -> None:
    """All attacks named in the argument, in that order."""
    told = json.loads(sys.argv[1])
    for name in told["attacks"]:
        try:
            attempt = globals().get(f"try_{name}") or getattr(kernel_attacks, f"try_{name}")
            attempt(told)
            answer = "open\tit worked"
        except BlockingIOError as error:
            answer = f"open\t{error.strerror}" if error.errno == errno.EINVAL else f"stopped\t{_said(error)}"
        except OSError as error:
            answer = f"stopped\t{_said(error)}"
        print(f"{name}\t{answer}", flush=True)
