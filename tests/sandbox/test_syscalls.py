"""The table of system calls, held against the headers of the C library where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tertulia.sandbox.syscalls import LAST_KNOWN, MACHINES, NUMBERS

HEADERS = {"x86_64": ("asm/unistd_64.h", []), "aarch64": ("asm-generic/unistd.h", ["-D__BITS_PER_LONG=64"])}
WANTED = ["-D__ARCH_WANT_SYS_CLONE3", "-D__ARCH_WANT_NEW_STAT", "-D__ARCH_WANT_RENAMEAT"]
WANTED += ["-D__ARCH_WANT_MEMFD_SECRET"]


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_number_is_that_of_the_header(name: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to read the headers with")
    header, flags = HEADERS[name]
    line = ["gcc", "-E", "-dM", "-x", "c", *flags, *WANTED, "-"]
    read = subprocess.run(line, input=f"#include <{header}>", text=True, capture_output=True, timeout=30, check=False)
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
