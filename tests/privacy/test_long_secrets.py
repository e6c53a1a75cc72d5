"""Taking secrets out of a long text costs whoever sent it, and no one else of the process."""

from __future__ import annotations

import hashlib
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


@pytest.mark.parametrize("ending", ["whole", "cut"])
async def test_a_session_token_in_a_long_answer_is_neither_told_nor_stored(
    ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S001-45, L1: it is taken out in steps, before anything of the answer is published, also of one that broke off."""
    home, secret = Lives(monkeypatch, tmp_path).home, hashlib.sha256(b"secret").hexdigest()
    text = f"{'0123456789 ' * 30_000}{secret}{' x' * 100_000}"
    reply = text if ending == "whole" else {"text": text, "error": {"code": "broken", "message": "it broke"}}
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([reply]))) as session:
        session.parts.redactor.register_token(secret)
        stream = session.root.stream("Go.")
        lines = [event.json() async for event in stream]
        answer = await stream.reply()
        (*_, last) = await session.root.history()
    assert any(len(event) > len(text) for event in lines), "the answer is told whole"
    for shown in (*lines, repr(answer).encode(), repr(last).encode(), everything_below(home)):
        assert secret[8:].encode() not in shown
        assert secret[-9:].encode() not in shown
