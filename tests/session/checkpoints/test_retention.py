"""What becomes of checkpoints with time: by their policy, by age and by size."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.rollout.sweep.retention import CheckpointRetention, retention_from_wire
from tertulia.session.checkpoints.retention import next_expiry, sweep_shadow, sweep_shadows
from tests.privacy.secrets_told import everything_below
from tests.session.checkpoints.scene import Scene

DAY = 86_400.0
NO_LIMIT = CheckpointRetention(None, None)


async def sweep(scene: Scene, limits: CheckpointRetention = NO_LIMIT, later: float = 0.0) -> None:
    """As a session does it, so many seconds later."""
    async with scene.shadow.held():
        await sweep_shadow(scene.shadow, limits, scene.ticks.time + later)


async def message(scene: Scene, name: str, content: str | bytes, **fields: float) -> str:
    """One that writes a file; the id of its checkpoint."""
    window = await scene.begin(**fields)
    scene.write(name, content)
    await scene.end(window)
    return window.id


async def test_what_a_ttl_allows_is_gone_with_its_objects_when_the_time_is_over(tmp_path: Path) -> None:
    """26-1: `ttl` for that time."""
    scene = Scene(tmp_path)
    await message(scene, "a", os.urandom(2000).hex(), expires=scene.ticks.time + 100)
    manifest = scene.shadow.manifest
    assert next_expiry(manifest) == pytest.approx(1_000_100.0)
    await sweep(scene, later=10)
    assert len(await scene.place.list()) == 1
    await sweep(scene, later=200)
    assert await scene.place.list() == []
    assert not scene.shadow.store.exists()
    assert sorted(path.suffix or path.name for path in scene.shadow.folder.iterdir()) == [".live", "lock"]


async def test_of_two_policies_the_one_that_is_over_takes_only_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await message(scene, "kept", "kept")
    await message(scene, "secret", "the secret of a ttl", expires=scene.ticks.time + 100)
    scene.write("secret", "gone")
    later = await scene.begin()
    await scene.end(later)
    await sweep(scene, later=1_000)
    assert len(await scene.place.list()) == 2
    await scene.undo(id=(await scene.place.list())[0].id)
    assert not (scene.top / "kept").exists()


async def test_old_windows_go_and_the_rest_can_be_undone_still(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await message(scene, "old", "old")
    scene.ticks.time += 8 * DAY
    await message(scene, "new", "new")
    await sweep(scene, CheckpointRetention())
    assert len(await scene.place.list()) == 1
    await scene.undo()
    assert set(scene.files()) == {"old"}
    scene.ticks.time += 8 * DAY
    await sweep(scene, CheckpointRetention())
    assert not scene.shadow.store.exists()
    await message(scene, "again", "again")
    await scene.undo()
    assert set(scene.files()) == {"old"}


async def test_a_workspace_that_takes_too_much_loses_its_oldest(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    ids = [await message(scene, "a", os.urandom(300_000)) for _ in range(6)]
    await sweep(scene, CheckpointRetention(None, 1.0))
    left = [window.id for window in await scene.place.list()]
    assert 0 < len(left) < 6
    assert left == ids[-len(left) :]
    await scene.undo()
    packs = sum(path.stat().st_size for path in scene.shadow.store.rglob("*.pack"))
    assert packs < 1024 * 1024


async def test_more_than_may_be_recorded_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_bytes=1000)
    scene.write("a", b"x" * 2000)
    with pytest.raises(LimitError, match=r"retention\.checkpoints"):
        await scene.begin()


async def test_the_record_of_a_workspace_that_is_gone_is_removed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await message(scene, "a", "canary-of-a-workspace")
    scene.place.close()
    shutil.rmtree(scene.top)
    folder = scene.data / "checkpoints"
    await sweep_shadows(folder, CheckpointRetention(), scene.ticks.time, scene.variables)
    assert b"canary" not in everything_below(scene.data)
    assert not folder.exists()


def test_the_setting_has_two_limits_and_refuses_others() -> None:
    assert retention_from_wire({}).checkpoints == CheckpointRetention(7.0, 1024.0)
    assert retention_from_wire({"checkpoints": {"max_mb": 10}}).checkpoints.max_bytes == 10 * 1024 * 1024
    for wrong in ({"checkpoints": {"max_age": 1}}, {"checkpoints": 7}, {"checkpoints": {"max_mb": 0}}):
        with pytest.raises(InvalidParamsError, match=r"retention\.checkpoints"):
            retention_from_wire(wrong)
