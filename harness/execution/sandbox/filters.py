"""The seccomp filter as classic BPF: what a training job never needs is refused, whatever else holds.

Refused are: other processes' memory, namespaces and mounts, the kernel's risky corners, the clocks, IPC that outlives a process, every socket that is
not AF_UNIX, whatever drops pages of shared files from memory or tells which are there, and extended attributes, which the owner of a file may write through a
descriptor that is for reading: by either, one job could tell the next what it saw. `clone3` is said not to exist, because its flags cannot be seen from here; the C library then uses `clone`, whose flags can.
"""

from __future__ import annotations

import os
import struct

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST, SECOND, THIRD = 0, 4, 16, 24, 32
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
AF_UNIX = 1
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
MADV_COLD, MADV_PAGEOUT = 20, 21
NEW_ANYTHING = 0x7E020000
X32 = 0x40000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SPECIAL = {"clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29), "madvise": (28, 233)}
DENIED = {  # x86_64, aarch64; None where the call does not exist
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "syslog": (103, 116), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "settimeofday": (164, 170), "adjtimex": (159, 171),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "fadvise64": (221, 223), "preadv2": (327, 286), "mincore": (27, 232), "cachestat": (451, 451),
}  # fmt: skip


def program(machine: str | None = None) -> bytes:
    """The filter for a machine, this one by default; empty where it is not known."""
    name = machine or os.uname().machine
    if name not in ARCHITECTURES:
        return b""
    which = list(ARCHITECTURES).index(name)
    special = {call: numbers[which] for call, numbers in SPECIAL.items()}
    code = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[name]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    if name == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), _refuse(ENOSYS)]
    code += [(EQUAL, 0, 1, special["clone3"]), _refuse(ENOSYS)]
    for numbers in DENIED.values():
        number = numbers[which]
        code += [(EQUAL, 0, 1, number), _refuse(EPERM)] if number is not None else []
    for call in ("socket", "socketpair"):
        code += [(EQUAL, 0, 4, special[call]), (LOAD, 0, 0, FIRST), (EQUAL, 1, 0, AF_UNIX), _refuse(EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 4, special["clone"]), (LOAD, 0, 0, FIRST), (ANY_BIT, 0, 1, NEW_ANYTHING), _refuse(EPERM), (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 5, special["madvise"]), (LOAD, 0, 0, THIRD), (EQUAL, 1, 0, MADV_COLD), (EQUAL, 0, 1, MADV_PAGEOUT), _refuse(EPERM)]
    code += [(RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 4, special["ioctl"]), (LOAD, 0, 0, SECOND), (EQUAL, 1, 0, TIOCSTI), (EQUAL, 0, 1, TIOCLINUX), _refuse(EPERM)]
    code += [(RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *one) for one in code)


def _refuse(code: int) -> tuple[int, int, int, int]:
    return (RETURN, 0, 0, REFUSE | code)
