"""Our side of the mount helper: one process, that goes with its last user and comes back when it died."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import helper_client
from tertulia.sandbox.mounts.entries import encode_entries
from tertulia.sandbox.mounts.helper_client import MountAnswer, MountHelper, memory_fd, shared_helper
from tertulia.sandbox.mounts.mount_plan import MountPlan
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, Place


async def ask(helper: MountHelper, plan: bytes, namespace: str = "/dev/null") -> MountAnswer:
    answered: asyncio.Future[MountAnswer] = asyncio.get_running_loop().create_future()
    fd = os.open(namespace, os.O_RDONLY)
    try:
        helper.request(fd, answered.set_result).send_plan(plan)
        return await asyncio.wait_for(answered, DEADLINE_S)
    finally:
        os.close(fd)


@pytest.mark.parametrize("plan", [encode_entries([], []), b"nonsense", b"{}"])
async def test_what_cannot_be_done_is_answered_and_nothing_is_left(plan: bytes) -> None:
    before = len(os.listdir("/proc/self/fd"))
    helper = MountHelper()
    helper.acquire()
    for _ in range(2):
        answer = await ask(helper, plan)
        assert answer.failure
        assert answer.moved is None
    process = helper._process
    assert process is not None
    helper.release()
    assert process.returncode == 0
    assert len(os.listdir("/proc/self/fd")) == before


async def test_one_serves_all_and_is_started_anew_when_it_died() -> None:
    helper = MountHelper()
    helper.acquire()
    helper.acquire()
    await asyncio.gather(*(ask(helper, encode_entries([], [])) for _ in range(10)))
    first = helper._process
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    answers = [await ask(helper, encode_entries([], [])) for _ in range(2)]
    assert all(answer.failure for answer in answers)
    helper.release()
    assert helper._process is not None
    helper.release()
    assert helper._process is None


async def test_a_request_does_not_wait_until_the_one_before_is_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next worker is forked late, so that it takes no processor from a command that begins; but not too late."""
    longer = f"helper_program._UNDISTURBED_MS = {round(HANG_S * 10_000)}"
    serve = "from tertulia.sandbox.mounts.helper_program import serve"
    patched = f"from tertulia.sandbox.mounts import helper_program\n{longer}\n{serve}"
    assert serve in helper_client._CODE
    monkeypatch.setattr(helper_client, "_CODE", helper_client._CODE.replace(serve, patched))
    helper = MountHelper()
    helper.acquire()
    async with asyncio.timeout(HANG_S):
        answers = [await ask(helper, encode_entries([], [])) for _ in range(3)]
    assert all(answer.failure for answer in answers)
    helper.release()
    assert helper._process is None


async def test_who_does_not_wait_any_more_is_not_told() -> None:
    helper = MountHelper()
    helper.acquire()
    answers: list[MountAnswer] = []
    fd = os.open("/dev/null", os.O_RDONLY)
    pending = helper.request(fd, answers.append)
    pending.close()
    pending.close()
    pending.send_plan(encode_entries([], []))
    await ask(helper, encode_entries([], []))
    assert answers == []
    helper.release()
    os.close(fd)


def test_what_goes_to_bubblewrap_in_memory_is_read_from_its_beginning() -> None:
    fd = memory_fd(b"x" * 100_000)
    try:
        assert os.read(fd, 1 << 20) == b"x" * 100_000
    finally:
        os.close(fd)


async def test_a_helper_that_cannot_be_had_refuses_the_command(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2: fails closed, and nothing is left."""
    await sandbox.check()

    def refuse(*arguments: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(shared_helper, "request", refuse)
    with pytest.raises(SandboxError, match="was not run: the mount helper cannot be reached: Too many open files"):
        await sandbox.run(place.command("touch", "ran"), timeout_s=DEADLINE_S)
    assert list(place.root.iterdir()) == []


async def test_a_plan_that_cannot_be_made_refuses_the_command(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: the reason is told as it is."""
    await sandbox.check()

    def refuse(mounts: MountPlan) -> bytes:
        raise SandboxError("too many directories")

    monkeypatch.setattr(MountPlan, "plan", refuse)
    with pytest.raises(SandboxError, match="was not run: too many directories"):
        await sandbox.run(place.command("touch", "ran"), timeout_s=DEADLINE_S)
    assert list(place.root.iterdir()) == []


async def test_a_command_that_is_killed_while_it_is_planned_leaves_nothing(place: Place, sandbox: Sandbox) -> None:
    """A18"""
    (place.root / "sub" / ".git").mkdir(parents=True)
    await sandbox.check()
    for _ in range(5):
        running = await sandbox.start(place.command("touch", "ran"))
        await running.kill()
    assert [path.name for path in place.root.iterdir()] == ["sub"]
