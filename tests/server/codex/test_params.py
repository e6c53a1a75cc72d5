"""What clients send: read, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.server.codex import params as p
from tests.tables import each_row


def test_a_thread_is_told_what_to_change_and_no_more() -> None:
    """Issue 10 (5): what is left out stays as the settings say."""
    params = p.read_params(
        p.StartThread, {"model": "m", "modelProvider": "mine", "ephemeral": True, "personality": "friendly"}
    )
    assert params.changes() == {"model": "mine/m", "storage_policy": "none"}
    assert p.read_params(p.StartThread, {"model": "a/b", "modelProvider": "mine"}).changes() == {"model": "a/b"}
    assert p.read_params(p.StartThread, {}).changes() == {}
    resumed = p.read_params(
        p.ResumeThread, {"threadId": "t", "developerInstructions": "be brief", "sandbox": "read-only"}
    )
    assert resumed.changes() == {"user_instructions": "be brief", "sandbox": "read-only"}


def test_a_turn_changes_its_thread() -> None:
    """Issue 10 (5): sandboxPolicy has names of its own."""
    params = p.read_params(p.StartTurn, {"threadId": "t", "input": [], "sandboxPolicy": {"type": "dangerFullAccess"}})
    assert params.changes() == {"sandbox": "danger-full-access"}
    turn = p.read_params(p.StartTurn, {"threadId": "t", "input": [], "effort": "high"})
    assert turn.changes() == {"reasoning_effort": "high"}
    thread = p.read_params(p.StartThread, {"config": {"model_reasoning_effort": "low", "other": 1}})
    assert thread.changes() == {"reasoning_effort": "low"}


@each_row(
    ("kind", "params", "named"),
    [
        (p.StartTurn, {"threadId": "t"}, "input"),
        (p.StartThread, {"sandbox": "none"}, "sandbox"),
        (p.StartTurn, {"threadId": "t", "input": [], "sandboxPolicy": {"type": "externalSandbox"}}, "sandboxPolicy"),
        (p.CodexInitialize, {}, "clientInfo"),
    ],
)
def test_what_is_wrong_is_named(kind: Any, params: dict[str, Any], named: str) -> None:
    """HARDENING D."""
    with pytest.raises(InvalidParamsError, match=named):
        p.read_params(kind, params)


def no_skill(name: str, path: str) -> str:
    raise AssertionError(f"{name} at {path}")


def test_input_becomes_items_of_a_message() -> None:
    """Issue 10 (5): text, pictures, and files that are only mentioned."""
    inputs = [
        {"type": "text", "text": "hi", "text_elements": []},
        {"type": "image", "url": "data:x"},
        {"type": "localImage", "path": "/x.png"},
        {"type": "mention", "name": "readme", "path": "/README.md"},
    ]
    assert p.input_items(inputs, no_skill) == [
        {"type": "text", "text": "hi"},
        {"type": "image", "image_url": "data:x"},
        {"type": "local_image", "path": "/x.png"},
        {"type": "text", "text": "readme: /README.md"},
    ]
    assert p.input_text([inputs[0], inputs[3]], no_skill) == "hi\nreadme: /README.md"
    with pytest.raises(InvalidParamsError, match="text alone"):
        p.input_text(inputs, no_skill)
    with pytest.raises(InvalidParamsError, match="an entry is"):
        p.input_items([{"type": "audio", "url": "data:x"}], no_skill)
