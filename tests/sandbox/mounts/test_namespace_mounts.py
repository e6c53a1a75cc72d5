"""Everything is mounted inside before a command begins, or it does not begin."""

from __future__ import annotations

import os

import pytest

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.helper_client import shared_helper
from tertulia.sandbox.mounts.mount_plan import MountPlan
from tertulia.sandbox.mounts.namespace_mounts import memory_fd
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place


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
