"""More attacks for `attacks.py`: on the network, on the kernel, on what a job may use up."""

import contextlib
import ctypes
import errno
import os
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Told = dict[str, Any]

libc = ctypes.CDLL(None, use_errno=True)
CALLS = {
    "x86_64": {
        "io_uring": 425,
        "add_key": 248,
        "bpf": 321,
        "userfaultfd": 323,
        "perf": 298,
        "readv": 310,
        "shmget": 29,
        "settimeofday": 164,
    },
    "aarch64": {
        "io_uring": 425,
        "add_key": 217,
        "bpf": 280,
        "userfaultfd": 282,
        "perf": 241,
        "readv": 270,
        "shmget": 194,
        "settimeofday": 170,
    },
}.get(os.uname().machine, {})
NEW_USER, NEW_NS = 0x10000000, 0x20000
SHM_KEY = 0x52A7C4E7


def checked(result: int, what: str = "") -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def call(name: str, *arguments: object) -> int:
    if name not in CALLS:
        raise OSError(errno.ENOSYS, name)
    return checked(libc.syscall(ctypes.c_long(CALLS[name]), *arguments), name)


def try_tcp(told: "Told") -> None:
    with socket.socket() as end:
        end.settimeout(1)
        end.connect(("127.0.0.1", told["port"]))


def try_udp(told: "Told") -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", told["port"]))


def try_netlink(told: "Told") -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


def try_vsock(told: "Told") -> None:
    socket.socket(40, socket.SOCK_STREAM).close()


def try_unix_path(told: "Told") -> None:
    path = told["unix_path"]
    if len(os.fsencode(path)) > 107:  # the longest that fits into an address
        folder, name = os.path.split(path)
        path = f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{name}"
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)


def try_unix_abstract(told: "Told") -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect("\0" + told["unix_abstract"])


def try_io_uring(told: "Told") -> None:
    os.close(call("io_uring", 1, ctypes.create_string_buffer(256)))


def try_keyring(told: "Told") -> None:
    call("add_key", b"user", b"ratchet-probe", b"x", 1, -2)  # the keyring of this process alone


def try_kernel_corners(told: "Told") -> None:
    nothing = ctypes.create_string_buffer(128)
    calls: tuple[tuple[Any, ...], ...] = (("userfaultfd", 1), ("bpf", 0, None, 0), ("perf", nothing, 0, -1, -1, 0))
    for name, *arguments in calls:
        try:
            call(name, *arguments)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise BlockingIOError(errno.EINVAL, "reached the kernel") from None
        else:
            return
    raise OSError(errno.EPERM, "")


def try_user_namespace(told: "Told") -> None:
    _in_a_child(lambda: checked(libc.unshare(NEW_USER)))


def try_remount(told: "Told") -> None:
    def attempt() -> None:
        with contextlib.suppress(OSError):
            checked(libc.unshare(NEW_NS))  # so that a success changes this process's own view alone
        checked(libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None))

    _in_a_child(attempt)


def try_write_sysctl(told: "Told") -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


def try_set_clock(told: "Told") -> None:
    call("settimeofday", None, None)  # asks for the right and changes nothing


def try_many_processes(told: "Told") -> None:
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


def try_big_file(told: "Told") -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _fill(os.path.join(os.environ["HOME"], "big"), told["file_bytes"] + 4096)


def try_big_scratch(told: "Told") -> None:
    half = told["file_bytes"] // 2 + 65536
    _fill(os.path.join(os.environ["HOME"], "half"), half)
    _fill(os.path.join(os.environ["HOME"], "other-half"), half)


def _fill(path: str, size: int) -> None:
    with open(path, "wb", buffering=0) as file:
        while size > 0:
            size -= file.write(b"\0" * min(size, 1 << 16))


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
