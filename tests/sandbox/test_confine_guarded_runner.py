"""A runner that keeps every command from what is guarded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox.confine import GuardedRunner
from tertulia.sandbox.masks.guarded_paths import guarded_paths
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place, need


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
