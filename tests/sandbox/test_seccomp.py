"""The filter, call by call, on both machines; what the kernel makes of it is the escape suite's to see."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import SandboxUnavailableError
from tertulia.sandbox.seccomp import (
    ALLOW,
    KILL_PROCESS,
    NO_TERMINAL,
    REFUSE,
    REFUSED,
    UNKNOWN,
    UNSUPPORTED,
    filter_program,
)
from tertulia.sandbox.seccomp_numbers import LAST_KNOWN, MACHINES, NUMBERS, Machine, current_machine
from tests.deadlines import HANG_S
from tests.sandbox.bpf import verdict

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK = 1, 2, 10, 16, 17, 38, 40
STREAM, DGRAM, RAW, CLOEXEC = 1, 2, 3, 0o2000000
O_CREAT, O_TMPFILE = 0o100, 0o20000000


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def ask(machine: Machine, name: str | int, *arguments: int, internet: bool = True, routes: bool = False) -> int:
    number = machine.number(name) if isinstance(name, str) else name
    if number is None:
        return REFUSE
    return verdict(filter_program(machine, internet=internet, routes=routes), machine.audit_arch, number, arguments)


@pytest.mark.parametrize("name", REFUSED)
def test_a12_what_changes_the_machine_is_refused(machine: Machine, name: str) -> None:
    """A12"""
    assert ask(machine, name) == REFUSE


def test_a12_the_calls_of_the_catalogue_are_among_them() -> None:
    """A12: those that the list must not lose."""
    assert {
        *("mount", "unshare", "setns", "bpf", "keyctl", "perf_event_open", "open_by_handle_at", "ptrace"),
        *("process_vm_readv", "process_vm_writev", "pidfd_getfd", "io_uring_setup", "io_uring_enter", "userfaultfd"),
    } <= {*REFUSED}


def test_a12_another_architecture_is_killed_and_x32_refused() -> None:
    """A12: i386 on x86_64, arm on aarch64, and each for the other."""
    for machine in MACHINES.values():
        program = filter_program(machine, internet=True)
        for foreign in (0x40000003, 0x40000028, *(other.audit_arch for other in MACHINES.values())):
            expected = ALLOW if foreign == machine.audit_arch else KILL_PROCESS
            assert verdict(program, foreign, 0) == expected
    assert ask(MACHINES["x86_64"], 0x40000000 | 39) == REFUSE


def test_clone3_is_not_there_and_clone_makes_no_namespace(machine: Machine) -> None:
    """A12"""
    assert ask(machine, "clone3") == UNKNOWN
    assert UNKNOWN & 0xFFFF == errno.ENOSYS
    assert ask(machine, "clone", 17) == ALLOW
    assert ask(machine, "clone", 0x3D0F00) == ALLOW
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert ask(machine, "clone", 17 | flag) == REFUSE


def test_calls_that_are_newer_than_we_are_do_not_exist(machine: Machine) -> None:
    assert ask(machine, LAST_KNOWN) == ALLOW
    assert ask(machine, LAST_KNOWN + 1) == UNKNOWN
    assert ask(machine, 1000) == UNKNOWN


@pytest.mark.parametrize("internet", [False, True])
@pytest.mark.parametrize("routes", [False, True])
def test_a9_a10_sockets_are_made_by_family(machine: Machine, internet: bool, routes: bool) -> None:
    """A9, A10"""

    def socket(*arguments: int) -> bool:
        answer = ask(machine, "socket", *arguments, internet=internet, routes=routes)
        assert answer in (ALLOW, REFUSE)
        return answer == ALLOW

    for family in (AF_INET, AF_INET6):
        assert socket(family, STREAM) is internet
        assert socket(family, DGRAM | CLOEXEC) is internet
        assert not socket(family, RAW)
    assert socket(AF_NETLINK, RAW, 0) is routes
    assert not socket(AF_NETLINK, RAW, 15)
    for family in (AF_UNIX, AF_PACKET, AF_ALG, AF_VSOCK):
        assert not socket(family, STREAM)
    assert ask(machine, "socketpair", AF_INET, STREAM) == REFUSE


@pytest.mark.parametrize("namespaces", [False, True])
def test_s5_only_pairs_of_streams_are_made(machine: Machine, namespaces: bool) -> None:
    """S5: a datagram socket of a pair sends to any name, and a raw UNIX socket is one under another number."""
    program = filter_program(machine, internet=True, namespaces=namespaces)
    number = machine.number("socketpair")
    assert number is not None
    for kind in range(16):
        expected = ALLOW if kind == STREAM else REFUSE
        for flags in (0, CLOEXEC, CLOEXEC | 0o4000):
            assert verdict(program, machine.audit_arch, number, [AF_UNIX, kind | flags]) == expected


def test_s6_without_namespaces_a_command_changes_no_process_but_itself(machine: Machine) -> None:
    """S6: by number, by group and by user; a limit may be read, as in /proc."""
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert ask(machine, name, 0) == ALLOW
        assert {ask(machine, name, other) for other in (1, 4321, 0xFFFFFFFF)} == {REFUSE}
    assert ask(machine, "setpriority", 0, 0, 5) == ALLOW
    assert {ask(machine, "setpriority", which, who) for which, who in ((0, 7), (1, 0), (2, 0), (2, 1000))} == {REFUSE}
    assert ask(machine, "ioprio_set", 1, 0, 5) == ALLOW
    assert {ask(machine, "ioprio_set", which, who) for which, who in ((0, 0), (1, 7), (2, 0), (3, 0))} == {REFUSE}
    assert ask(machine, "prlimit64", 0, 7, 0x7FFF_0000_0000, 0) == ALLOW
    assert ask(machine, "prlimit64", 4321, 7, 0, 0x7FFF_0000_0000) == ALLOW
    for limits in (0x7FFF_0000_0000, 0x1_0000_0000, 0x1000):
        assert ask(machine, "prlimit64", 4321, 7, limits, 0) == REFUSE


def test_s6_in_namespaces_of_its_own_only_their_first_process_is_not_a_commands(machine: Machine) -> None:
    """S6: it is ours, and ends the others."""
    program = filter_program(machine, internet=True, namespaces=True)
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        number = machine.number(name)
        assert number is not None
        answers = [verdict(program, machine.audit_arch, number, [pid, 0, 8]) for pid in (0, 1, 2)]
        assert answers == [ALLOW, REFUSE, ALLOW]
    for name, by_process in (("setpriority", 0), ("ioprio_set", 1)):
        number = machine.number(name)
        assert number is not None
        answers = [verdict(program, machine.audit_arch, number, [by_process, pid, 9]) for pid in (0, 1, 2)]
        assert answers == [ALLOW, REFUSE, ALLOW]
        # Of the group and of the user the first process is one.
        for which in {0, 1, 2, 3} - {by_process}:
            assert verdict(program, machine.audit_arch, number, [which, 0, 9]) == REFUSE


@pytest.mark.parametrize("namespaces", [False, True])
def test_s6_a_command_keeps_nobody_from_writing_what_it_may_only_read(machine: Machine, namespaces: bool) -> None:
    """S6: by a lease; locks, duplicates and flags are a program's own affair."""
    program = filter_program(machine, internet=True, namespaces=namespaces)
    number = machine.number("fcntl")
    assert number is not None
    for act, expected in (
        (1024, REFUSE),
        (1 << 32 | 1024, REFUSE),
        (1025, ALLOW),
        (6, ALLOW),
        (1030, ALLOW),
        (2, ALLOW),
    ):
        assert verdict(program, machine.audit_arch, number, [3, act, 0]) == expected


def test_s8_no_memory_is_made_that_nobody_else_can_see(machine: Machine) -> None:
    """S8: of secret memory no number tells how much of it there is."""
    assert ask(machine, "memfd_secret") == UNKNOWN


BY_KEY = (
    *("mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget"),
    *("msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget"),
)


@pytest.mark.parametrize("name", BY_KEY)
def test_s6_what_any_process_of_the_user_has_made_needs_a_namespace(machine: Machine, name: str) -> None:
    """S6, S8: and there System V shared memory, which no watcher of processes sees, comes in small pieces."""
    assert ask(machine, name) == REFUSE
    program = filter_program(machine, internet=True, namespaces=True)
    number = machine.number(name)
    assert number is not None
    assert verdict(program, machine.audit_arch, number, [1, 64 << 10]) == ALLOW
    if name == "shmget":
        for size in ((64 << 10) + 1, 1 << 32, 1 << 63):
            assert verdict(program, machine.audit_arch, number, [1, size]) == REFUSE


def test_s8_blocks_are_not_reserved_without_being_written(machine: Machine) -> None:
    """S8: nothing would count them. Punching holes and collapsing frees some."""
    for mode, expected in ((0, UNSUPPORTED), (1, UNSUPPORTED), (0x10, UNSUPPORTED), (3, ALLOW), (8, ALLOW)):
        assert ask(machine, "fallocate", 3, mode) == expected


def test_a22_nobody_types_into_a_terminal(machine: Machine) -> None:
    """A22: TIOCSTI and TIOCLINUX; the kernel looks at 32 bits of the request, and so do we."""
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32, 0xFFFFFFFF00000000 | 0x5412):
        assert ask(machine, "ioctl", 0, request) == REFUSE
    assert ask(machine, "ioctl", 0, 0x5401) == ALLOW


def test_no_file_takes_on_the_rights_of_its_owner(machine: Machine) -> None:
    for name, at in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1), ("mknodat", 2)):
        before = [0] * at
        for mode in (0o4755, 0o2755, 0o6000):
            assert ask(machine, name, *before, mode) == REFUSE
        if machine.number(name) is not None:
            assert ask(machine, name, *before, 0o1755) == ALLOW


def test_the_mode_of_an_open_counts_only_where_something_is_created(machine: Machine) -> None:
    for flags, expected in ((0, ALLOW), (1, ALLOW), (O_CREAT | 1, REFUSE), (O_TMPFILE, REFUSE)):
        assert ask(machine, "openat", -100, 0, flags, 0o4755) == expected
        assert ask(machine, "openat", -100, 0, flags, 0o644) == ALLOW
    assert ask(machine, "openat2") == UNKNOWN


def beside(landlock: int, machine: Machine, name: str, *arguments: int) -> int:
    """What the filter of the Landlock tier answers where Landlock has this version."""
    number = machine.number(name)
    program = filter_program(machine, internet=False, landlock=landlock)
    return REFUSE if number is None else verdict(program, machine.audit_arch, number, arguments)


O_RDONLY, O_WRONLY, O_RDWR, ONLY_CONTROLS, O_TRUNC = 0, 1, 2, 3, 0o1000


@pytest.mark.parametrize("landlock", range(1, 8))
def test_no_file_is_emptied_where_landlock_does_not_look(machine: Machine, landlock: int) -> None:
    """Issue 19: before version 3 by its path, and by opening it in a way that is not for writing."""
    open_too = landlock >= 3
    assert beside(landlock, machine, "truncate", 0, 0) == (ALLOW if open_too else REFUSE)
    for mode in (O_RDONLY, O_WRONLY, O_RDWR, ONLY_CONTROLS):
        may_write = open_too or mode in (O_WRONLY, O_RDWR)
        for flags in (O_TRUNC, O_TRUNC | O_CREAT, O_TRUNC | CLOEXEC):
            assert beside(landlock, machine, "openat", -100, 0, flags | mode, 0o644) == (ALLOW if may_write else REFUSE)
        assert beside(landlock, machine, "openat", -100, 0, mode, 0o644) == ALLOW
    assert beside(landlock, machine, "openat", -100, 0, O_CREAT | O_TRUNC | O_WRONLY, 0o4755) == REFUSE


def test_no_kernel_has_landlock_look_at_controls_of_files(machine: Machine) -> None:
    """Issue 19: flags, fs-verity, encryption, subvolumes of btrfs; all take a file that is only open for reading."""
    changing = (0x40086602, 0x40806685, 0x800C6613, 0x5000940E, 0x50009401, 0x5000940F, 0x40089419, 0x401C5820)
    for request in changing:
        assert beside(7, machine, "ioctl", 3, request) == NO_TERMINAL
    for request in (0x5401, 0x5413, 0x541B, 0x80045430, 0x8912, 0x80086601, 0x40049409, 0x40049409 | 1 << 40):
        assert beside(7, machine, "ioctl", 3, request) == ALLOW
    for request in (0x5412, 0x541C):
        assert beside(7, machine, "ioctl", 3, request) == REFUSE


@pytest.mark.parametrize("landlock", range(1, 8))
def test_before_landlock_keeps_signals_in_none_goes_to_all_processes(machine: Machine, landlock: int) -> None:
    """Issue 19"""
    assert beside(landlock, machine, "kill", -1, 9) == (ALLOW if landlock >= 6 else REFUSE)
    assert beside(landlock, machine, "kill", 4711, 9) == ALLOW


@given(number=st.integers(0, LAST_KNOWN), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_every_call_gets_one_of_six_answers(number: int, arguments: list[int]) -> None:
    for machine in MACHINES.values():
        answer = verdict(filter_program(machine, internet=True), machine.audit_arch, number, arguments)
        assert answer in (ALLOW, REFUSE, UNKNOWN, UNSUPPORTED, NO_TERMINAL)
        if number not in {machine.number(name) for name in NUMBERS}:
            assert answer == ALLOW


def test_a20_there_is_no_filter_for_a_machine_that_we_do_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A20"""
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*real[:4], "riscv64")))
    with pytest.raises(SandboxUnavailableError, match="no system call filter for riscv64"):
        current_machine()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(SandboxUnavailableError, match="on Linux only, and this is Darwin"):
        current_machine()


HEADERS = {"x86_64": ("asm/unistd_64.h", []), "aarch64": ("asm-generic/unistd.h", ["-D__BITS_PER_LONG=64"])}
WANTED = ["-D__ARCH_WANT_SYS_CLONE3", "-D__ARCH_WANT_NEW_STAT", "-D__ARCH_WANT_RENAMEAT"]
WANTED += ["-D__ARCH_WANT_MEMFD_SECRET"]


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_number_is_that_of_the_header(name: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to read the headers with")
    header, flags = HEADERS[name]
    line = ["gcc", "-E", "-dM", "-x", "c", *flags, *WANTED, "-"]
    read = subprocess.run(
        line, input=f"#include <{header}>", text=True, capture_output=True, timeout=HANG_S, check=False
    )
    if read.returncode != 0:
        pytest.skip(f"no header {header} here")
    there = {
        found[1]: int(found[2])
        for found in re.finditer(r"#define __NR(?:3264)?_(\w+) (\d+)$", read.stdout, re.MULTILINE)
    }
    machine = MACHINES[name]
    ours = {call: number for call in NUMBERS if (number := machine.number(call)) is not None}
    # Those that are newer than the header cannot be looked up in it.
    newest = max(there.values())
    assert {call: there.get(call) for call, number in ours.items() if number <= newest} == {
        call: number for call, number in ours.items() if number <= newest
    }
    assert {call for call in NUMBERS if machine.number(call) is None} & there.keys() == set()


def test_no_two_calls_share_a_number() -> None:
    for machine in MACHINES.values():
        numbers = [number for call in NUMBERS if (number := machine.number(call)) is not None]
        assert len(numbers) == len(set(numbers))
        assert max(numbers) <= LAST_KNOWN
