"""The seccomp filter: an allow-list of system calls, assembled by hand for two processors from one
list of names.

What is not listed fails with EPERM; a call made in another architecture's convention kills the
process. There is no open, stat, ioctl, socket, clone, exec or kill. oneDNN generates code, so
anonymous executable pages are allowed; executable pages of a file are not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

NUMBERS: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "readv": (19, 65),
    "writev": (20, 66),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "brk": (12, 214),
    "madvise": (28, 233),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""Every system call a locked process may make: its number on x86_64 and on aarch64."""

MACHINES: dict[str, tuple[int, int, int, int]] = {
    "x86_64": (0, 0xC000003E, 317, 126),
    "aarch64": (1, 0xC00000B7, 277, 91),
}
"""Column of NUMBERS, the kernel's name for the architecture, and the numbers of seccomp and
capset.
"""

ALLOW, DENY, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, PROTECTION_AT, FLAGS_AT = 0, 4, 32, 40
PROT_EXEC, MAP_ANONYMOUS = 0x4, 0x20
Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false (both counted from the next instruction), operand."""


def assemble(machine: str) -> list[Instruction]:
    """The filter for one processor as BPF instructions."""
    column, architecture, *_ = MACHINES[machine]
    numbers = [pair[column] for name, pair in NUMBERS.items() if name != "mmap"]
    tail = [  # only mmap comes this far; the last two are where the jumps lead
        (EQUAL, 0, 4, NUMBERS["mmap"][column]),
        (LOAD, 0, 0, PROTECTION_AT),
        (ANY_BIT, 0, 3, PROT_EXEC),
        (LOAD, 0, 0, FLAGS_AT),
        (ANY_BIT, 1, 0, MAP_ANONYMOUS),
        (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
    ]
    listed = [
        (EQUAL, len(numbers) - i + len(tail) - 2, 0, number) for i, number in enumerate(numbers)
    ]
    start = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    return [*start, *listed, *tail]


def install() -> None:
    """Put the filter on this process for good.

    OSError where the kernel or the processor has none.
    """
    machine = platform.machine()
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no table of system calls for {machine}")
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in assemble(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    )
    filter_mode, every_thread, keep_speed = (
        1,
        1,
        4,
    )  # keep_speed: old kernels would switch off store bypass, which is slow
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(MACHINES[machine][2], filter_mode, every_thread | keep_speed, program)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
