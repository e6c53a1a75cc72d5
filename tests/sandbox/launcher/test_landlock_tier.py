"""Tier 2: by explicit setting, of a Landlock that is new enough, and honest about the rest."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.launcher.landlock_tier import NOT_COVERED, DeferredStart, LandlockTier
from tertulia.sandbox.mounts.mount_plan import HIDDEN
from tertulia.sandbox.runner import Change
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams, may_remain
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, Place, need


async def test_a20_a_kernel_without_landlock_refuses_every_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A20: a faked version"""
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match=r"has no Landlock, .* Linux 5\.13 or newer"):
        await sandbox.run(place.command("touch", "ran"))
    await sandbox.close()
    assert list(place.root.iterdir()) == []


async def test_it_says_what_it_does_not_cover() -> None:
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    report = await sandbox.check()
    await sandbox.close()
    assert report.tier == "landlock"
    assert report.not_covered == (*NOT_COVERED, *may_remain(sandbox._tier._launcher.namespace))
    assert any("protected names" in gap for gap in report.not_covered)


async def test_a_secret_outside_is_not_read_and_the_temporary_directory_goes(place: Place, tmp_path: Path) -> None:
    """A14"""
    need("landlock")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("canary")
    command = place.command(
        "sh", "-c", f"cat {tmp_path}/keys/id; echo x > $TMPDIR/x; echo $TMPDIR; echo y > /tmp/y-{place.tag}"
    )
    masked = replace(command, confinement=replace(command.confinement, masked=(str(tmp_path / "keys"),)))
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    text = (await sandbox.run(masked, timeout_s=DEADLINE_S)).output.text()
    await sandbox.close()
    assert "canary" not in text
    temporary = next(line for line in text.splitlines() if line.startswith(tempfile.gettempdir()))
    assert not os.path.exists(temporary)
    assert not os.path.exists(f"/tmp/y-{place.tag}")


async def test_a7_a_root_that_was_swapped_refuses_the_command(place: Place, tmp_path: Path) -> None:
    """A7"""
    need("landlock")
    link = tmp_path / "link"
    link.symlink_to(place.root)
    command = place.command("touch", "ran", cwd="/")
    swapped = replace(command, confinement=replace(command.confinement, writable_roots=(str(link),)))
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    with pytest.raises(SandboxError, match="no longer the directory"):
        await sandbox.run(swapped)
    await sandbox.close()
    assert list(place.root.iterdir()) == []


STAYS = """
import os, sys
path = os.path.join(os.environ["TMPDIR"], "secret")
with open(path, "w") as file:
    file.write("canary")
print(path, flush=True)
sys.stdin.read()
"""
LOOK = """
import os, sys
def attempt(act):
    try:
        return act() or True
    except OSError as error:
        return error.strerror
path = sys.argv[1]
print(attempt(lambda: open(path).read()), attempt(lambda: open(path, "w").close()), attempt(lambda: os.unlink(path)))
"""


@pytest.mark.parametrize("base", [None, "elsewhere"])
@pytest.mark.parametrize("there", [False, True])
async def test_s6_nobody_reads_another_commands_temporary_directory(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str | None, there: bool
) -> None:
    """S6: of another conversation or session, while it runs and when it was left; nor by beginning there."""
    need("landlock")
    if base is not None:
        elsewhere = Path(tempfile.mkdtemp(dir=Path.home(), prefix=".tertulia-test-"))
        monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    one, other = (Sandbox(tier="landlock", clock=SystemClock()) for _ in range(2))
    try:
        running = await one.start(place.python(STAYS, keep_stdin=True))
        await place.until(lambda: b"\n" in running._all.output().head)
        secret = running._all.output().text().strip()
        cwd = os.path.dirname(secret) if there else str(place.root)
        seen = await other.run(place.python(LOOK, secret, cwd=cwd), timeout_s=DEADLINE_S)
        assert seen.output.text().split("Permission denied") == ["", " ", " ", "\n"]
        assert Path(secret).read_text() == "canary"
        # What a command that was killed with everything left behind is as closed.
        left = Path(secret).parent.with_name("tertulia-left")
        left.mkdir()
        (left / "secret").write_text("canary")
        seen = await other.run(place.python(LOOK, str(left / "secret")), timeout_s=DEADLINE_S)
        assert seen.output.text().split("Permission denied") == ["", " ", " ", "\n"]
        shutil.rmtree(left)
        await running.kill()
    finally:
        await one.close()
        await other.close()
        if base is not None:
            shutil.rmtree(elsewhere)


async def test_a_temporary_folder_of_somebody_else_refuses_the_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: where it is not hidden as a whole, ours must be ours alone."""
    need("landlock")
    seen = [folder for folder in (Path.home(), Path.cwd()) if not any(map(folder.is_relative_to, HIDDEN))]
    if not seen:
        pytest.skip(
            f"home and checkout lie in {', '.join(HIDDEN)}, which are hidden as a whole: no folder to begin with"
        )
    elsewhere = Path(tempfile.mkdtemp(dir=seen[0], prefix=".tertulia-test-"))
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    await sandbox.check()
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
        (elsewhere / f"tertulia-{os.geteuid()}").mkdir()
        (elsewhere / f"tertulia-{os.geteuid()}").chmod(0o777)
        with pytest.raises(SandboxError, match="not this user's own directory"):
            await sandbox.run(place.command("touch", "ran"))
    finally:
        await sandbox.close()
        shutil.rmtree(elsewhere)
    assert list(place.root.iterdir()) == []


def test_nothing_is_kept_where_nothing_was_started() -> None:
    LandlockTier().close()


@pytest.mark.parametrize("root", ["/", "/proc", "/sys/kernel", "/dev"])
async def test_a_part_of_the_system_is_no_writable_root(place: Place, root: str) -> None:
    """S1: `/` as a workspace, also where it is allowed; as in the other tier"""
    need("landlock")
    command = place.command("true")
    command = replace(command, confinement=replace(command.confinement, writable_roots=(root,)))
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    with pytest.raises(SandboxError, match="part of the system itself"):
        await sandbox.run(command, timeout_s=DEADLINE_S)
    await sandbox.close()


CONNECTS = """
import os, socket, sys
try:
    socket.socket(socket.AF_INET).close()
    internet = "online"
except OSError:
    internet = "offline"
def may(act):
    try:
        act()
    except OSError:
        return False
    return True
print(internet, *(name for name in sys.argv[1:] if may(lambda: open(name + "/made", "w").close())))
"""


async def test_commands_that_differ_in_turn_are_confined_each_by_its_own(place: Place, tmp_path: Path) -> None:
    """Issue 17: what was prepared for a command like the one before serves no other."""
    need("landlock")
    roots = [place.root, *(Path(os.path.realpath(tmp_path)) / name for name in ("second", "third"))]
    for root in roots[1:]:
        root.mkdir()
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    try:
        for number in range(8):
            root, online = str(roots[number % 3]), number % 4 >= 2
            command = place.python(CONNECTS, *map(str, roots))
            confinement = replace(command.confinement, writable_roots=(root,), network=online)
            ran = await sandbox.run(replace(command, confinement=confinement), timeout_s=DEADLINE_S)
            assert ran.output.text().split() == ["online" if online else "offline", root]
    finally:
        await sandbox.close()


async def test_a_root_that_comes_back_as_another_directory_is_the_one_that_is_written(place: Place) -> None:
    """A7: rules hold for a directory, not for its name; those that were prepared for the old one are not used."""
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    try:
        for number in range(6):
            ran = await sandbox.run(place.command("sh", "-c", "echo x > made && cat made"), timeout_s=DEADLINE_S)
            assert (number, ran.output.text()) == (number, "x\n")
            shutil.rmtree(place.root)
            place.root.mkdir()
    finally:
        await sandbox.close()


CHANGE = Change("/x", "made")


class Acts:
    """What happens around a command, and the command."""

    def __init__(self, *, refused: Exception | None = None, broken: Exception | None = None) -> None:
        self.seen: list[str] = []
        self._refused, self._broken = refused, broken
        self.ended: OnProcessEnd | None = None
        self.over: asyncio.Future[ProcessEnd] = asyncio.get_running_loop().create_future()

    def before(self) -> None:
        self.seen.append("before")
        if self._refused is not None:
            raise self._refused

    def after(self) -> tuple[Change, ...]:
        self.seen.append("after")
        return (CHANGE,)

    def start(self, streams: Streams, ended: OnProcessEnd) -> Acts:
        self.seen.append("start")
        if self._broken is not None:
            raise self._broken
        os.fstat(streams.stdin)
        asyncio.get_running_loop().call_soon(ended, ProcessEnd(3))
        return self

    def kill(self) -> None:
        self.seen.append("kill")

    def terminate(self) -> None:
        self.seen.append("terminate")

    def leader(self) -> int | None:
        return 7

    def late(self) -> DeferredStart:
        fd = os.open("/dev/null", os.O_RDWR)
        late = DeferredStart(self, self.start, Streams(fd, fd, fd), self.over.set_result)
        os.close(fd)
        return late


async def test_it_begins_after_the_one_and_is_over_after_the_other() -> None:
    acts = Acts()
    late = acts.late()
    late.terminate()
    assert late.leader() is None
    ending = await asyncio.wait_for(acts.over, HANG_S)
    assert ending == ProcessEnd(3, changes=(CHANGE,))
    late.kill()
    late.terminate()
    assert late.leader() == 7
    assert acts.seen == ["before", "start", "after", "kill", "terminate"]


async def test_killed_before_it_began_it_never_does() -> None:
    acts = Acts()
    acts.late().kill()
    assert (await asyncio.wait_for(acts.over, HANG_S)).exit_code == 137
    assert acts.seen == ["before", "after"]


@pytest.mark.parametrize(
    ("problems", "reason"),
    [
        ({"refused": SandboxError("not so")}, "not so"),
        ({"broken": SandboxUnavailableError("not there")}, "not there"),
        ({"broken": OSError(28, "No space left on device")}, "No space left on device"),
    ],
)
async def test_what_refuses_it_is_its_reason(problems: dict[str, Exception], reason: str) -> None:
    acts = Acts(**problems)
    late = acts.late()
    ending = await asyncio.wait_for(acts.over, HANG_S)
    assert late.leader() is None
    assert (ending.began, ending.reason) == (False, reason)
    assert acts.seen[-1] == "after"
