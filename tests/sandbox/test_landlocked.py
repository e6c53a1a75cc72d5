"""Tier 2: by explicit setting, of a Landlock that is new enough, and honest about the rest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailable
from tertulia.events.clock import SystemClock
from tertulia.sandbox import landlock
from tertulia.sandbox.landlocked import NOT_COVERED, Landlocked
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place, need


@pytest.mark.parametrize(
    ("version", "complaint"), [(0, "has no Landlock"), (5, "Landlock is version 5, at least 6 .* is needed")]
)
async def test_a20_a_landlock_that_is_missing_or_too_old_refuses_every_command(
    place: Place, monkeypatch: pytest.MonkeyPatch, version: int, complaint: str
) -> None:
    """A20: a faked version"""
    monkeypatch.setattr(landlock, "abi", lambda: version)
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    with pytest.raises(SandboxUnavailable, match=complaint):
        await sandbox.run(place.command("touch", "ran"))
    await sandbox.close()
    assert list(place.root.iterdir()) == []


async def test_it_says_what_it_does_not_cover() -> None:
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    report = await sandbox.check()
    await sandbox.close()
    assert report.tier == "landlock"
    assert report.not_covered == NOT_COVERED
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


def test_nothing_is_kept_where_nothing_was_started() -> None:
    Landlocked().close()
