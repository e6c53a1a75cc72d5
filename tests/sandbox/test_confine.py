"""From rights to confinements."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.sandbox.confine import GuardedRunner, confine
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask, ProtectedPath, guarded_paths
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.settings.settings import Settings
from tests.sandbox.confined import DEADLINE_S, Place, need


def test_without_roots_the_workspace_is_the_one_that_may_be_written() -> None:
    confinement = confine(
        Settings().rights,
        "/work",
        guarded=GuardedPaths(
            (Mask("/secret", "/secret", "a key"),), (ProtectedPath("/work/.bashrc", "a shell runs it"),)
        ),
    )
    assert confinement.mode == "workspace_write"
    assert confinement.writable_roots == ("/work",)
    assert confinement.masked == ("/secret",)
    assert confinement.protected_paths == ("/work/.bashrc",)
    assert not confinement.network


def test_named_roots_replace_it() -> None:
    """A8: and no directory that anybody works in is added."""
    rights = replace(Settings().rights, writable_roots=("/a", "/b"), network=True)
    confinement = confine(rights, "/work", guarded=GuardedPaths())
    assert confinement.writable_roots == ("/a", "/b")
    assert confinement.network


@pytest.mark.parametrize("mode", ["read_only", "danger_full_access"])
def test_the_mode_is_that_of_the_rights(mode) -> None:
    assert confine(replace(Settings().rights, sandbox=mode), "/work", guarded=GuardedPaths()).mode == mode


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("act", ["run", "start"])
async def test_s1_a_confined_server_does_not_read_our_files(tmp_path: Path, tier: str, act: str) -> None:
    """S1, S9: an MCP server in a sandbox obeys the same list, though its definition says nothing of it."""
    need(tier)
    place = Place(tmp_path)
    # In the workspace: what lies elsewhere in /tmp is not seen in any case.
    ours, secret = place.root / "data", place.root / "home" / ".npmrc"
    for path in (ours / "serve.token", secret):
        path.parent.mkdir()
        path.write_text("canary")
    bare = Sandbox(tier=tier, clock=SystemClock())  # type: ignore[arg-type]
    runner = GuardedRunner(bare, guarded_paths([str(place.root / "home")], [str(ours)]))
    command = place.command("sh", "-c", f"cat {ours}/serve.token {secret}; echo read")
    try:
        assert (await runner.check()).tier == tier
        if act == "run":
            finished = await runner.run(command, timeout_s=DEADLINE_S)
        else:
            finished = await (await runner.start(command)).wait(DEADLINE_S)
        assert finished is not None
        assert "read" in finished.output.text()
        assert "canary" not in finished.output.text()
        control = await bare.run(command, timeout_s=DEADLINE_S)
        assert control.output.text().count("canary") == 2
    finally:
        await runner.close()
