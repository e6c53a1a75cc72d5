"""Limits of each process, and what a command says that has met one."""

from __future__ import annotations

import resource
import subprocess

from tertulia.sandbox.limits.kernel_limits import exceeded_limit, rlimits, set_rlimits
from tertulia.sandbox.runner import CommandLimits, Output
from tests.tables import each_row


def test_only_what_is_set_is_limited() -> None:
    none = CommandLimits(processes=None, memory_bytes=None, file_bytes=None, cpu_s=None)
    assert [kind for kind, _, _ in rlimits(none)] == [resource.RLIMIT_CORE]


def test_the_signal_of_the_cpu_limit_comes_before_the_kill() -> None:
    assert (resource.RLIMIT_CPU, 5, 6) in list(rlimits(CommandLimits(cpu_s=5)))


def test_a_limit_that_is_already_tighter_stays() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (1000, 1000))
        set_rlimits(child.pid, CommandLimits(file_bytes=5000, cpu_s=7))
        assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == (1000, 1000)
        assert resource.prlimit(child.pid, resource.RLIMIT_CPU) == (7, 8)
        child.kill()


@each_row(
    ("code", "said", "limit"),
    [
        (0, b"MemoryError", None),
        (1, b"all is well", None),
        (152, b"", "cpu_s"),
        (153, b"", "file_bytes"),
        (1, b"Traceback\nMemoryError\n", "memory_bytes"),
        (2, b"sh: 0: Cannot allocate memory", "memory_bytes"),
        (1, b"dd: error writing 'x': File too large", "file_bytes"),
        (1, b"BlockingIOError: [Errno 11] Resource temporarily unavailable", "processes"),
        (1, b"RuntimeError: can't start new thread", "processes"),
    ],
)
def test_a19_the_limit_is_named_by_signal_or_by_what_was_said_last(code: int, said: bytes, limit: str | None) -> None:
    """A19"""
    assert exceeded_limit(code, Output(said, b"", len(said))) == limit
