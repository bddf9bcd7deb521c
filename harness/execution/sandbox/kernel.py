"""The few calls of the kernel that Python has no name for. Every failure is an `OSError` that says which call it was."""

import ctypes
import os

NUMBERS = {"x86_64": {"pivot_root": 155, "capset": 126}, "aarch64": {"pivot_root": 41, "capset": 91}}
COMMON = {"mount_setattr": 442, "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446}
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 1, 4096, 16384, 1 << 18
MNT_DETACH = 2
NEW_NS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAP_AMBIENT = 1, 24, 38, 22, 47
CAPABILITIES = 64
CAP_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(name: str, *arguments: object) -> int:
    """A call by its number on this machine."""
    table = COMMON | NUMBERS.get(os.uname().machine, {})
    if name not in table:
        raise OSError(38, f"{name}: not known on {os.uname().machine}")
    _libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _checked(_libc.syscall(ctypes.c_long(table[name]), *words), name)


def prctl(option: int, first: int, second: object = 0) -> None:
    """`prctl`."""
    _checked(_libc.prctl(option, ctypes.c_ulong(first), second, 0, 0), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave the namespaces of the parent."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """`mount`, with empty strings for nothing."""
    words = [word.encode() or None for word in (source, target, kind)]
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount on {target}")


def detach(target: str) -> None:
    """Take a whole mount away."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def restrict_mount(target: str, attributes: int, recursive: bool) -> None:
    """Add attributes to a mount, and to those below it. Linux 5.12 and later."""
    words = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    syscall("mount_setattr", AT_FDCWD, ctypes.c_char_p(target.encode()), AT_RECURSIVE if recursive else 0, words, ctypes.sizeof(words))


def drop_capabilities() -> None:
    """All of them, from every set, for good where the bounding set may be changed."""
    for number in range(CAPABILITIES):
        _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)  # refused for numbers that do not exist and without CAP_SETPCAP
    _libc.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(4), 0, 0, 0)
    header, data = (ctypes.c_uint32 * 2)(CAP_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    syscall("capset", header, data)


def load_filter(program: bytes) -> None:
    """A seccomp filter for this process and all that come of it."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    prctl(PR_SET_SECCOMP, 2, ctypes.byref(Program(len(program) // 8, program)))
