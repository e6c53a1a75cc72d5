"""Taking secrets out of a long text costs whoever sent it, and no one else of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

import tertulia
from tertulia.testing import ScriptedModel
from tests.loop_steps import MOST_S, loop_steps
from tests.privacy.secrets_told import everything_below
from tests.session.lives import Lives

KEY = "ghp_" + "a1B2" * 10
BAITS = ["ghp_", "xoxb-", "-----BEGIN PRIVATE KEY-----\n"]


@pytest.mark.parametrize("bait", BAITS)
async def test_a_text_that_is_made_of_beginnings_of_keys_does_not_hold_the_loop(
    bait: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """L1, E6: 4 MB of them held it for 900 ms, in a message, in an answer and in an output."""
    home = Lives(monkeypatch, tmp_path).home
    text = f"{bait * (1_500_000 // len(bait))} {KEY}"
    async with (
        tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["Fine."]))) as session,
        loop_steps() as steps,
    ):
        reply = await session.root.message(text)
    assert reply.text == "Fine."
    assert steps.longest_s < MOST_S
    assert KEY.encode() not in everything_below(home)
