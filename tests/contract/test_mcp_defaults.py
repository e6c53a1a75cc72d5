"""A required property with a default may be left out: what is sent, asked about and recorded has it (issue 17, 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.python_session import soon
from tests.contract.serving_tools import Voice, define, ends, kinds, lines, table, tool

TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "default": "hello"}, "times": {"type": "integer", "default": 3}},
    "required": ["text"],
}


def echoing(folder: Path, **fields: Any) -> dict[str, Any]:
    """A server whose `echo` has a default for what it requires."""
    options = ("--define", define(folder / "tools.json", tool("echo", schema=TEXT)), "--record", str(folder / "record"))
    return table(*options, **fields)


async def test_what_is_left_out_reaches_the_server_with_its_default(tmp_path: Path) -> None:
    """Issue 17, item 11: such calls were refused. What is not required stays the server's own business."""
    voice = Voice()
    async with voice.session({"a": echoing(tmp_path)}) as session:
        voice.calls("a__echo")
        await soon(session.root.message("go"))
        voice.calls("a__echo", text="given", times=1)
        await soon(session.root.message("go"))
        assert await ends(session) == [(True, "hello"), (True, "given")]
        begun = [data.arguments for data in await kinds(session, "tool_call_begin")]
        assert begun == [{"text": "hello"}, {"text": "given", "times": 1}]


async def test_what_is_asked_about_is_what_is_sent_and_a_grant_is_for_that(tmp_path: Path) -> None:
    """Issue 17, item 11: leaving it out and writing it are the same call."""
    details: list[str] = []
    voice = Voice()

    def allow(request: Any) -> Any:
        details.append(request.detail)
        return {"decision": "allow", "scope": "session"}

    async with voice.session({"a": echoing(tmp_path, approval="prompt")}, approval_policy="on-request") as session:
        session.approvals.answer_with(allow)
        for arguments in ({}, {"text": "hello"}, {"text": "other"}):
            voice.calls("a__echo", **arguments)
            await soon(session.root.message("go"))
        assert [success for success, _ in await ends(session)] == [True] * 3
        assert len(details) == 2
        assert '"text": "hello"' in details[0]


@pytest.mark.parametrize("wrong", [None, 7])
async def test_a_given_value_is_never_replaced(tmp_path: Path, wrong: Any) -> None:
    """Issue 17, item 11: null is a value. It is refused by the schema, and the server hears nothing."""
    voice = Voice()
    async with voice.session({"a": echoing(tmp_path)}) as session:
        voice.calls("a__echo", text=wrong)
        await soon(session.root.message("go"))
        [(success, output)] = await ends(session)
        assert not success
        assert "$.text: expected string" in output
        assert not [line for line in lines(tmp_path / "record") if line.startswith("call")]
