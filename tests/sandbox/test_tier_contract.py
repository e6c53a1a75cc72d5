"""What holds for a command whatever confines it: its exit code, its streams, and that all of it ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import ClosedError, InvalidParamsError, SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.runner import Command, TerminalSize
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import QuietTime
from tests.sandbox.confined import DAEMON, DEADLINE_S, ROOT, Place, idle_threads, need, tagged

TIERS = ("bubblewrap", "landlock", "none")


class Tried:
    """One tier, and commands for it."""

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place = name, place
        self.sandbox = Sandbox(tier="landlock" if name == "landlock" else "bubblewrap", clock=SystemClock())

    def fit(self, command: Command) -> Command:
        if self.name != "none":
            return command
        return replace(command, confinement=replace(command.confinement, mode="danger_full_access"))

    async def run(self, *argv: str, timeout_s: float = DEADLINE_S, **fields: Any) -> Any:
        return await self.sandbox.run(self.fit(self.place.command(*argv, **fields)), timeout_s=timeout_s)

    async def start(self, *argv: str, **fields: Any) -> Any:
        return await self.sandbox.start(self.fit(self.place.command(*argv, **fields)))


@pytest.fixture(params=TIERS)
async def tried(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[Tried]:
    need(request.param)
    tried = Tried(request.param, place)
    yield tried
    await tried.sandbox.close()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-program-here",), 127),
        (("/etc/passwd",), 126),
    ],
)
async def test_the_exit_code_is_what_a_shell_would_say(tried: Tried, line: tuple[str, ...], code: int) -> None:
    finished = await tried.run(*line)
    assert (finished.exit_code, finished.ended) == (code, "exited")


async def test_stdout_and_stderr_come_in_the_order_they_were_written(tried: Tried) -> None:
    heard: list[bytes] = []
    command = tried.fit(tried.place.command("sh", "-c", "echo 1; echo 2 >&2; echo 3"))
    finished = await tried.sandbox.run(command, timeout_s=DEADLINE_S, on_output=heard.append)
    assert finished.output.text() == "1\n2\n3\n"
    assert b"".join(heard) == b"1\n2\n3\n"
    assert not finished.output.truncated


async def test_stderr_can_be_had_apart(tried: Tried) -> None:
    errors = bytearray()
    command = tried.fit(tried.place.command("sh", "-c", "echo out; echo err >&2"))
    finished = await (await tried.sandbox.start(command, None, errors.extend)).wait(DEADLINE_S)
    assert finished is not None
    assert (finished.output.text(), bytes(errors)) == ("out\n", b"err\n")


async def test_whoever_is_told_to_end_may_do_so_in_its_own_way(tried: Tried) -> None:
    """SIGTERM reaches the command where the tier can; in every tier it can still be killed."""
    running = await tried.start(
        "sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do read x || :; done", keep_stdin=True
    )
    await tried.place.until(lambda: b"up" in running.take().head)
    running.terminate()
    if tried.name == "bubblewrap":
        assert await running.wait(0.2) is None
    else:
        with suppress(ClosedError):
            # It may have ended meanwhile.
            await running.write(b"\n")
        finished = await running.wait(DEADLINE_S)
        assert (finished.exit_code, finished.ended) == (3, "exited")
    assert (await running.kill()).output.text().startswith("up")


async def test_input_goes_in_whole_and_then_ends(tried: Tried) -> None:
    data = os.urandom(1 << 20)
    finished = await tried.run("sha256sum", stdin=data)
    assert finished.output.text().split()[0] == hashlib.sha256(data).hexdigest()


async def test_a_command_that_does_not_read_its_input_hinders_nobody(tried: Tried) -> None:
    assert (await tried.run("true", stdin=b"x" * (1 << 20))).exit_code == 0


async def test_no_input_is_an_end_of_file(tried: Tried) -> None:
    assert (await tried.run("cat")).output.total == 0


async def test_an_open_input_takes_more_until_it_is_closed(tried: Tried) -> None:
    running = await tried.start("cat", keep_stdin=True)
    await running.write(b"one\n")
    await tried.place.until(lambda: running._all.output().total == 4)
    assert running.take().text() == "one\n"
    assert running.take().total == 0
    await running.write(b"two\n")
    running.close_stdin()
    running.close_stdin()
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.output.text() == "one\ntwo\n"
    assert running.take().text() == "two\n"
    with pytest.raises(ClosedError):
        await running.write(b"three\n")


async def test_waiting_ends_nothing(tried: Tried) -> None:
    running = await tried.start("cat", keep_stdin=True)
    assert await running.wait(0.01) is None
    assert running.finished is None
    running.close_stdin()
    assert (await running.wait(DEADLINE_S)).exit_code == 0


async def test_a_terminal_is_the_commands_own_and_ctrl_c_reaches_what_runs_in_it(tried: Tried) -> None:
    running = await tried.start(
        "bash", "--norc", "-c", "trap 'echo caught' INT; tty -s && stty size; while :; do sleep 600; done",
        terminal=TerminalSize(40, 100),
    )  # fmt: skip
    await tried.place.until(lambda: b"40 100" in running._all.output().head)
    async with asyncio.timeout(DEADLINE_S):
        # Again, because a shell that has just begun to wait for `sleep` hears of the first one when that ends.
        while b"caught" not in running._all.output().head:
            await running.write(b"\x03")
            await running.wait(0.05)
    assert (await running.kill()).ended == "killed"


async def test_end_of_file_on_a_terminal_is_ctrl_d(tried: Tried) -> None:
    running = await tried.start("cat", terminal=TerminalSize())
    await running.write(b"line\n")
    running.close_stdin()
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.exit_code == 0
    assert b"line" in finished.output.head


async def test_g3_much_output_keeps_head_and_tail_and_its_true_size(tried: Tried) -> None:
    """G3, target 9"""
    size = 64 << 20
    finished = await tried.run("sh", "-c", f"echo first; head -c {size} /dev/zero; echo last", kept_output_bytes=4096)
    assert finished.output.total == size + len("first\nlast\n")
    assert finished.output.head.startswith(b"first\n")
    assert finished.output.tail.endswith(b"last\n")
    assert len(finished.output.head) + len(finished.output.tail) == 4096


async def test_a15_the_environment_is_what_was_given(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """A15: nothing of ours is inherited."""
    monkeypatch.setenv("SOME_API_KEY", "canary")
    finished = await tried.run("env", environment={"PATH": "/usr/bin:/bin", "GIVEN": "a b"})
    names = {line.partition("=")[0] for line in finished.output.text().splitlines()}
    assert {"PATH", "GIVEN"} <= names <= {"PATH", "GIVEN", "PWD", "TMPDIR"}


async def test_a16_only_the_three_streams_are_inherited(tried: Tried) -> None:
    """A16"""
    with open(os.devnull, encoding="ascii") as extra:
        os.set_inheritable(extra.fileno(), True)
        finished = await tried.run("ls", "/proc/self/fd")
    # The fourth is the directory that `ls` reads.
    assert finished.output.text().split() == ["0", "1", "2", "3"]


async def test_a17_a_timeout_leaves_no_daemon_behind(tried: Tried) -> None:
    """A17, H3, target 10: double fork, setsid, every polite signal ignored; gone when `run` returns."""
    place = tried.place
    for timeout_s in (1.0, 4.0, 16.0, 64.0):
        time_taken = QuietTime()
        finished = await tried.run(sys.executable, "-I", "-S", "-c", DAEMON, place.tag, timeout_s=timeout_s)
        assert (finished.exit_code, finished.ended) == (124, "timeout")
        assert time_taken.seconds < timeout_s + 1
        assert place.survivors() == []
        if finished.output.total:
            # On a busy machine it may have been ended before it came so far.
            break
    assert finished.output.text() == "up\n"


async def test_a17_cancelling_leaves_no_daemon_behind(tried: Tried) -> None:
    """A17"""
    place = tried.place
    up = asyncio.Event()
    command = tried.fit(place.python(DAEMON, place.tag))
    task = asyncio.create_task(tried.sandbox.run(command, on_output=lambda data: up.set()))
    await asyncio.wait_for(up.wait(), DEADLINE_S)
    assert place.survivors()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.survivors() == []


async def test_a17_a_daemon_ends_with_the_command_that_left_it(tried: Tried) -> None:
    """A17"""
    place = tried.place
    code = DAEMON.rpartition("os.execvp")[0]
    finished = await tried.run(sys.executable, "-I", "-S", "-c", code, place.tag)
    assert (finished.exit_code, finished.output.text()) == (0, "up\n")
    assert place.survivors() == []


async def test_killing_at_once_and_twice_is_one_end(tried: Tried) -> None:
    running = await tried.start("sleep", "600", environment={"PATH": "/usr/bin:/bin"})
    first, second = await asyncio.gather(running.kill(), running.kill())
    assert first == second == running.finished
    assert first.ended == "killed"


async def test_closing_ends_whatever_runs(tried: Tried) -> None:
    running = [await tried.start("sh", "-c", "sleep 600", tried.place.tag) for _ in range(3)]
    await tried.sandbox.close()
    assert all(process.finished.ended == "killed" for process in running)
    assert tried.place.survivors() == []


PRODUCT = """
import asyncio, sys
from msgspec.structs import replace
from pathlib import Path
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DAEMON, Place, idle_threads
from tests.sandbox.test_tier_contract import Tried

async def main(tier, folder, tag):
    place = Place(Path(folder))
    tried = Tried(tier, place)
    await tried.sandbox.run(tried.fit(place.python(DAEMON, tag)), on_output=lambda data: print("up", flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("tier", TIERS)
def test_a18_nothing_survives_the_product_that_is_killed(tier: str, tmp_path: Path) -> None:
    """A18: kill -9 while a daemon runs; 0 survivors. Within a second where nothing else keeps the machine busy."""
    need(tier)
    tag = f"tag{os.urandom(6).hex()}"
    line = [sys.executable, "-c", PRODUCT, tier, str(tmp_path), tag]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as product:
        assert product.stdout is not None
        assert product.stdout.readline() == b"up\n"
        alive = tagged(tag)
        product.kill()
    assert len(alive) > 1
    until = SystemClock().monotonic() + DEADLINE_S
    while tagged(tag) and SystemClock().monotonic() < until:
        pass
    assert tagged(tag) == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"argv": ()}, "needs a program"),
        ({"argv": ("",)}, "needs a program"),
        ({"argv": ("a\0b",)}, "NUL"),
        ({"cwd": "relative"}, "working directory"),
        ({"cwd": "/no/such/directory"}, "working directory"),
        ({"environment": {"A=B": ""}}, "environment variable"),
        ({"environment": {"": "x"}}, "environment variable"),
        ({"environment": {"A": "\0"}}, "NUL"),
    ],
)
async def test_what_no_program_can_be_given_is_refused_before_anything_runs(
    tried: Tried, fields: dict[str, Any], complaint: str
) -> None:
    command = tried.fit(replace(tried.place.command("true"), **fields))
    with pytest.raises(InvalidParamsError, match=complaint):
        await tried.sandbox.start(command)


@pytest.mark.usefixtures("unprepared")
async def test_commands_run_at_the_same_time_and_leave_no_descriptor_open(tried: Tried) -> None:
    await tried.run("true")
    await idle_threads()
    before = len(os.listdir("/proc/self/fd"))
    finished = await asyncio.gather(*(tried.run("sh", "-c", f"exit {number}") for number in range(8)))
    assert [one.exit_code for one in finished] == list(range(8))
    await idle_threads()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("unprepared")
async def test_too_few_descriptors_refuse_a_command_and_leak_none(tried: Tried) -> None:
    """F8: with one more each time, until there are enough; what cannot start leaves nothing behind."""
    await tried.run("true")
    await idle_threads()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Numbers that are free between others would serve as well as higher ones.
    top, fillers = max(map(int, os.listdir("/proc/self/fd"))), [os.dup(0)]
    while fillers[-1] < top:
        fillers.append(os.dup(0))
    before = os.listdir("/proc/self/fd")
    outcomes: list[str] = []
    try:
        for extra in range(60):
            resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + extra, hard))
            try:
                finished = await tried.run("sh", "-c", "exit 0", tried.place.tag)
                outcomes.append(f"{finished.ended} {finished.exit_code}")
            except SandboxError:
                outcomes.append("refused")
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await idle_threads()
            assert len(os.listdir("/proc/self/fd")) == len(before)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in fillers:
            os.close(fd)
    assert {*outcomes} <= {"refused", "exited 0"}
    assert outcomes[0] == "refused"
    assert outcomes[-1] == "exited 0"
    assert tried.place.survivors() == []
    assert list(tried.place.root.iterdir()) == []
