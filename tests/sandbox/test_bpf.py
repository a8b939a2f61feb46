"""The filter, run by a small interpreter of BPF: every number of both processors gets the verdict it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from se_rl.sandbox import bpf
from se_rl.sandbox.bpf import ALLOW, DENY, KILL, MACHINES, NUMBERS

FORBIDDEN = {"open", "openat", "socket", "clone", "execve", "kill", "ioctl", "ptrace", "prctl"}
ANONYMOUS, PRIVATE, READ, WRITE, EXECUTE = 0x20, 0x02, 1, 2, 4


def verdict(
    machine: str, number: int, *, architecture: int | None = None, prot: int = 0, flags: int = 0
) -> int:
    """What the filter says to a system call."""
    known = MACHINES[machine][1]
    memory = {0: number, 4: known if architecture is None else architecture, 32: prot, 40: flags}
    program, at, accumulator = bpf.assemble(machine), 0, 0
    while True:
        operation, if_true, if_false, operand = program[at]
        at += 1
        if operation == bpf.RETURN:
            return operand
        if operation == bpf.LOAD:
            accumulator = memory[operand]
        else:
            holds = (
                accumulator == operand if operation == bpf.EQUAL else bool(accumulator & operand)
            )
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_the_listed_calls_are_allowed(machine: str) -> None:
    column = MACHINES[machine][0]
    listed = {pair[column] for pair in NUMBERS.values()}
    assert len(listed) == len(NUMBERS) == 31
    for number in range(1024):
        assert verdict(machine, number) == (ALLOW if number in listed else DENY)


@pytest.mark.parametrize("machine", MACHINES)
def test_another_convention_kills(machine: str) -> None:
    others = [
        0x40000003,
        *(m[1] for name, m in MACHINES.items() if name != machine),
    ]  # 0x40000003: 32-bit x86
    assert {verdict(machine, number, architecture=a) for a in others for number in range(500)} == {
        KILL
    }
    assert verdict(machine, 0x40000000) == verdict(machine, 0x40000001) == DENY  # the x32 numbers


@pytest.mark.parametrize("machine", MACHINES)
def test_only_anonymous_pages_may_be_executable(machine: str) -> None:
    number = NUMBERS["mmap"][MACHINES[machine][0]]
    for prot in range(8):
        for flags in (PRIVATE, PRIVATE | ANONYMOUS, ANONYMOUS | 1, 1):
            refused = prot & EXECUTE and not flags & ANONYMOUS
            assert verdict(machine, number, prot=prot, flags=flags) == (DENY if refused else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
def test_jumps_stay_inside(machine: str) -> None:
    program = bpf.assemble(machine)
    for at, (operation, if_true, if_false, _) in enumerate(program):
        if operation in (bpf.EQUAL, bpf.ANY_BIT):
            assert max(if_true, if_false) <= 255 and at + 1 + max(if_true, if_false) < len(program)
    assert program[-1][0] == bpf.RETURN


def test_nothing_that_reaches_outside_is_listed() -> None:
    assert not FORBIDDEN & NUMBERS.keys()


@pytest.mark.parametrize(
    "column, header",
    [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")],
    ids=["x86_64", "aarch64"],
)
def test_numbers_are_those_of_the_kernel(column: int, header: str) -> None:
    path = Path("/usr/include") / header
    if not path.is_file():
        pytest.skip(f"the kernel's headers are not installed: {path}")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
    assert {name: int(found[name]) for name in NUMBERS} == {
        name: pair[column] for name, pair in NUMBERS.items()
    }
