"""What the mount helper makes of a sandbox, seen from inside, and what it refuses."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import helper_client, helper_program
from tertulia.sandbox.mounts.entries import MountEntry, decode_entries, encode_entries
from tertulia.sandbox.mounts.mount_plan import MountPlan
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place, idle_threads


async def test_nothing_is_left_aside_and_the_devices_are_read_only(place: Place, sandbox: Sandbox) -> None:
    (place.root / "netrc").write_text("x")
    command = place.command(
        "sh", "-c", "ls -A /dev | grep tertulia; touch /dev/x; grep -c tertulia/0 /proc/self/mounts"
    )
    masked = replace(command, confinement=replace(command.confinement, masked=(f"{place.root}/netrc",)))
    finished = await sandbox.run(masked, timeout_s=DEADLINE_S)
    assert finished.output.text() == "touch: cannot touch '/dev/x': Read-only file system\n0\n"


async def test_roots_in_roots_have_their_own_protected_names(place: Place, sandbox: Sandbox) -> None:
    inner = place.root / "a" / "inner"
    inner.mkdir(parents=True)
    command = place.command("sh", "-c", "mkdir a/inner/.git; echo 1 > a/inner/x; echo 2 > a/y; mv a b; echo 3 > a/z")
    roots = (str(place.root), str(inner))
    finished = await sandbox.run(
        replace(command, confinement=replace(command.confinement, writable_roots=roots)), timeout_s=DEADLINE_S
    )
    assert finished.exit_code == 0, finished.output.text()
    assert sorted(path.name for path in inner.iterdir()) == ["x"]
    assert sorted(path.name for path in (place.root / "a").iterdir()) == ["inner", "y", "z"]


async def test_s4_a_root_that_is_a_repository_itself_is_read_only(place: Place, sandbox: Sandbox) -> None:
    """S4: its config and hooks lie at its top, and a file `commondir` would lead to others."""
    for name in ("objects", "refs"):
        (place.root / name).mkdir()
    (place.root / "HEAD").write_text("ref: refs/heads/main\n")
    finished = await sandbox.run(place.command("sh", "-c", "echo x > config; mkdir hooks; ls"), timeout_s=DEADLINE_S)
    assert "HEAD\nobjects\nrefs\n" in finished.output.text()
    assert sorted(path.name for path in place.root.iterdir()) == ["HEAD", "objects", "refs"]


@pytest.mark.parametrize("harm", ["identity", "missing", "link", "unknown"])
@pytest.mark.usefixtures("unprepared")
async def test_s2_a_place_that_is_not_what_was_seen_refuses_the_command(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """S2: nothing runs, the reason names the place, and nothing is left."""
    await sandbox.run(place.command("true"), timeout_s=DEADLINE_S)
    (place.root / "other").mkdir()
    (place.root / "link").symlink_to("/etc")
    await idle_threads()
    before = len(os.listdir("/proc/self/fd"))
    plan = MountPlan.plan
    monkeypatch.setattr(helper_client, "_ATTEMPTS", 2)

    def changed(mounts: MountPlan) -> bytes:
        private, entries = decode_entries(plan(mounts))
        status = os.stat("/etc/passwd")
        wrong = {
            "identity": MountEntry(f"{place.root}/other", "read_only", 1, 2),
            "missing": MountEntry(f"{place.root}/missing", "pinned", 1, 2),
            "link": MountEntry(f"{place.root}/link/passwd", "read_only", status.st_dev, status.st_ino),
            "unknown": MountEntry(f"{place.root}/other", "seen", 1, 2, 77),
        }
        return encode_entries([*entries, wrong[harm]], private)

    monkeypatch.setattr(MountPlan, "plan", changed)
    with pytest.raises(SandboxError, match=r"was not run: .*(is moved all the time by another command|No such file)"):
        await sandbox.run(place.command("touch", "ran"), timeout_s=DEADLINE_S)
    assert sorted(path.name for path in place.root.iterdir()) == ["link", "other"]
    await idle_threads()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_many_begin_at_once(place: Place, sandbox: Sandbox) -> None:
    (place.root / "sub" / ".git").mkdir(parents=True)
    commands = [place.command("sh", "-c", f"touch sub/.git/x; echo {number}") for number in range(20)]
    finished = await asyncio.gather(*(sandbox.run(command, timeout_s=DEADLINE_S) for command in commands))
    assert [one.output.text().splitlines()[-1] for one in finished] == [str(number) for number in range(20)]
    assert list(Path(place.root, "sub", ".git").iterdir()) == []
    assert sorted(path.name for path in place.root.iterdir()) == ["sub"]


def test_a_rehearsal_leaves_nothing_behind_and_touches_nothing() -> None:
    """A worker rehearses before it knows for which sandbox: outside of all."""
    before = sorted(os.listdir("/proc/self/fd")), Path("/proc/self/mountinfo").read_text(), sorted(os.listdir("/dev"))
    helper_program._rehearse()
    after = sorted(os.listdir("/proc/self/fd")), Path("/proc/self/mountinfo").read_text(), sorted(os.listdir("/dev"))
    assert after == before
