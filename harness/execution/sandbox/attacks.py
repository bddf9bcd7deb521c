"""Runs inside a sandbox, as the candidate would, and tries what must not be possible. Prints one line an attack: name, `open` or `stopped`, what it got.

Nothing here does lasting harm where an attack succeeds: files are opened and not written, signals are number 0, the clock is set to what it shows.
Standard library only; it is copied into a job's folder and started with `python -I -S`.
"""

import contextlib
import ctypes
import errno
import json
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Told = dict[str, Any]

libc = ctypes.CDLL(None, use_errno=True)
CALLS = {
    "x86_64": {"io_uring": 425, "add_key": 248, "bpf": 321, "userfaultfd": 323, "perf": 298, "readv": 310, "shmget": 29},
    "aarch64": {"io_uring": 425, "add_key": 217, "bpf": 280, "userfaultfd": 282, "perf": 241, "readv": 270, "shmget": 194},
}.get(os.uname().machine, {})
NEW_USER, NEW_NS = 0x10000000, 0x20000
SHM_KEY = 0x52A7C4E7


def _checked(result: int, what: str = "") -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def _call(name: str, *arguments: object) -> int:
    if name not in CALLS:
        raise OSError(errno.ENOSYS, name)
    return _checked(libc.syscall(ctypes.c_long(CALLS[name]), *arguments), name)


def _in_a_child(attempt: "Callable[[], object]") -> None:
    """What may not be undone happens in a process of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            attempt()
            said = 0
        except OSError as error:
            said = error.errno or 255
        os.write(writer, bytes([min(said, 255)]))
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(reader, 1)[0]
    os.close(reader)
    os.close(writer)
    if said:
        raise OSError(said, "")


def _try_write_code(told: "Told") -> None:
    os.close(os.open("attacks.py", os.O_WRONLY))


def _try_add_code(told: "Told") -> None:
    os.close(os.open("sitecustomize.py", os.O_WRONLY | os.O_CREAT))


def _try_write_project(told: "Told") -> None:
    os.close(os.open(told["protected"], os.O_WRONLY))


def _try_change_mode(told: "Told") -> None:
    os.chmod(told["canary"], 0o644)


def _try_read_data(told: "Told") -> None:
    for path in told["data"]:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return
    os.close(os.open(told["canary"], os.O_RDONLY))


def _try_see_files(told: "Told") -> None:
    os.stat(told["canary"])


def _try_list_home(told: "Told") -> None:
    for path, expected in told["homes"].items():
        with contextlib.suppress(OSError):
            if set(os.listdir(path)) - set(expected):
                return
    raise PermissionError(errno.EACCES, "")


def _try_own_environment(told: "Told") -> None:
    if not any(told["key"] in value or name in told["secret_names"] for name, value in os.environ.items()):
        raise OSError(errno.ENOENT, "")


def _try_other_environment(told: "Told") -> None:
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and told["key"].encode() in _read(f"/proc/{name}/environ"):
                return
    raise OSError(errno.EACCES, "")


def _try_trace(told: "Told") -> None:
    _checked(libc.ptrace(16, told["pid"], None, None))
    libc.ptrace(17, told["pid"], None, None)


def _try_read_memory(told: "Told") -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(told["address"], 8)
    _call("readv", told["pid"], local, 1, remote, 1, 0)


def _try_signal_harness(told: "Told") -> None:
    os.kill(told["pid"], 0)


def _try_tcp(told: "Told") -> None:
    with socket.socket() as end:
        end.settimeout(1)
        end.connect(("127.0.0.1", told["port"]))


def _try_udp(told: "Told") -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", told["port"]))


def _try_netlink(told: "Told") -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


def _try_vsock(told: "Told") -> None:
    socket.socket(40, socket.SOCK_STREAM).close()


def _try_unix_path(told: "Told") -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(told["unix_path"])


def _try_unix_abstract(told: "Told") -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect("\0" + told["unix_abstract"])


def _try_io_uring(told: "Told") -> None:
    os.close(_call("io_uring", 1, ctypes.create_string_buffer(256)))


def _try_keyring(told: "Told") -> None:
    _call("add_key", b"user", b"ratchet-probe", b"x", 1, -2)  # the keyring of this process alone


def _try_kernel_corners(told: "Told") -> None:
    for attempt in (lambda: _call("userfaultfd", 1), lambda: _call("bpf", 0, None, 0), lambda: _call("perf", ctypes.create_string_buffer(128), 0, -1, -1, 0)):
        try:
            attempt()
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise BlockingIOError(errno.EINVAL, "reached the kernel") from None
        else:
            return
    raise OSError(errno.EPERM, "")


def _try_user_namespace(told: "Told") -> None:
    _in_a_child(lambda: _checked(libc.unshare(NEW_USER)))


def _try_remount(told: "Told") -> None:
    def attempt() -> None:
        with contextlib.suppress(OSError):
            _checked(libc.unshare(NEW_NS))  # so that a success changes this process's own view alone
        _checked(libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None))

    _in_a_child(attempt)


def _try_write_sysctl(told: "Told") -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


def _try_set_clock(told: "Told") -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time())


def _try_many_processes(told: "Told") -> None:
    pids = []
    try:
        for _ in range(told["pids"] + 16):
            pid = os.fork()
            if not pid:
                time.sleep(20)
                os._exit(0)
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def _try_big_file(told: "Told") -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _fill(os.path.join(os.environ["HOME"], "big"), told["file_bytes"] + 4096)


def _try_big_scratch(told: "Told") -> None:
    half = told["file_bytes"] // 2 + 65536
    _fill(os.path.join(os.environ["HOME"], "half"), half)
    _fill(os.path.join(os.environ["HOME"], "other-half"), half)


def _try_leave(told: "Told") -> None:
    """Leave the note wherever it can be left; `find` looks in the next job."""
    for folder in _corners(told):
        with contextlib.suppress(OSError):
            os.close(os.open(os.path.join(folder, told["note"]), os.O_WRONLY | os.O_CREAT, 0o666))
    with contextlib.suppress(OSError):
        _call("shmget", SHM_KEY, 4096, 0o1666)


def _try_find(told: "Told") -> None:
    for folder in _corners(told):
        if os.path.exists(os.path.join(folder, told["note"])):
            return
    _call("shmget", SHM_KEY, 4096, 0o666)


def _try_daemon(told: "Told") -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)
    os.wait()


def _try_packages(told: "Told") -> None:
    """No attack: what a job needs must be there."""
    missing = [path for path in told["needs"] if not os.access(path, os.R_OK)]
    if missing:
        raise OSError(errno.ENOENT, missing[0])


def _try_cuda(told: "Told") -> None:
    """No attack: the driver must start."""
    if told["gpu"] and (code := ctypes.CDLL("libcuda.so.1").cuInit(0)):
        raise OSError(errno.ENODEV, f"cuInit says {code}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _fill(path: str, size: int) -> None:
    with open(path, "wb", buffering=0) as file:
        while size > 0:
            size -= file.write(b"\0" * min(size, 1 << 16))


def _corners(told: "Told") -> "list[str]":
    return ["/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue", os.environ["HOME"], os.environ["TMPDIR"], ".", *told["folders"]]


def main() -> None:
    """All attacks named in the argument, in that order."""
    told = json.loads(sys.argv[1])
    for name in told["attacks"]:
        try:
            globals()[f"_try_{name}"](told)
            answer = "open\tit worked"
        except BlockingIOError as error:
            answer = f"open\t{error.strerror}" if error.errno == errno.EINVAL else f"stopped\t{errno.errorcode.get(error.errno, error.errno)}"
        except OSError as error:
            answer = f"stopped\t{errno.errorcode.get(error.errno, str(error.errno or error))} {error.strerror or ''}".rstrip()
        print(f"{name}\t{answer}", flush=True)


if __name__ == "__main__":
    main()
