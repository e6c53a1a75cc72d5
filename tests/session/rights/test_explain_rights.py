"""`rights/explain`, and why a person is asked: the same rule in both, and what set it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.tool_events import ApprovalRequest, Because
from tertulia.session import operations
from tertulia.session.rights.answers import RightsAnswer
from tertulia.session.settings.settings import load_settings
from tertulia.testing import ScriptedModel, ScriptedReply, ScriptedRequest, call, say
from tests.session.staging import stage
from tests.session.test_mcp_calls import served
from tests.tables import each_row

CONFIG = """
sandbox = "workspace-write"
approval_policy = "untrusted"

[limits]
max_conversations = 9
"""


async def explain(session: tertulia.Session, conversation: str = "root", **fields: Any) -> RightsAnswer:
    params = {"conversation_id": conversation, **fields}
    host = tertulia.Host(tertulia.Settings(model=ScriptedModel([])))
    answer = (await operations.call(host, session, "rights/explain", params)).answer
    assert isinstance(answer, RightsAnswer)
    return answer


def origins(answer: RightsAnswer) -> dict[str, tuple[Any, str, str | None]]:
    return {right.field: (right.value, right.set_by, right.source) for right in answer.rights}


async def test_each_right_says_what_set_it_and_where(tmp_path: Path) -> None:
    """S000-18, UI.md 7.7: a file with its line, a flag, -c, a default."""
    config = tmp_path / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG, encoding="utf-8")
    loaded = load_settings(
        cwd=tmp_path,
        flags={"storage_policy": "headers_only"},
        overrides=["network=true"],
        environ={"HOME": str(tmp_path)},
    )
    settings = replace(loaded.settings, model=ScriptedModel([]))
    async with tertulia.Session.start(settings) as session:
        rights = origins(await explain(session))
        assert rights["approval_policy"] == ("untrusted", "session", f"{config}:3")
        assert rights["sandbox"] == ("workspace-write", "session", f"{config}:2")
        assert rights["network"] == (True, "session", "-c")
        assert rights["storage_policy"] == ("headers_only", "session", "flag --storage")
        assert rights["visibility"] == ("session", "session", "default")
        assert rights["limits"][2] == f"{config}:5"
        config.unlink()
        assert origins(await explain(session))["sandbox"][2] == str(config)


async def test_a_child_says_whether_it_asked_inherited_or_was_cut() -> None:
    """B7"""
    settings = tertulia.Settings(model=ScriptedModel([]), sandbox="workspace-write", approval_policy="untrusted")
    async with tertulia.Session.start(settings) as session:
        parent = await session.open(sandbox="read-only", title="parent")
        child = await session.open(parent_id=parent.id, sandbox="danger-full-access", shell_mode="none")
        rights = await explain(session, child.id)
        by_field = {right.field: right for right in rights.rights}
        assert by_field["sandbox"].set_by == f"ancestor:{parent.id}"
        assert (by_field["sandbox"].value, by_field["sandbox"].asked) == ("read-only", "danger-full-access")
        assert (by_field["shell_mode"].set_by, by_field["shell_mode"].source) == ("conversation", None)
        assert (by_field["approval_policy"].set_by, by_field["approval_policy"].source) == ("session", "program")
        grandchild = await session.open(parent_id=child.id)
        assert origins(await explain(session, grandchild.id))["shell_mode"][1] == f"ancestor:{child.id}"


@each_row(
    ("value", "expected", "verdict", "reason"),
    [
        ({"approval_policy": "untrusted"}, {"command": "rm -rf build"}, "ask", "nothing but read run unasked"),
        ({"approval_policy": "untrusted"}, {"command": ["rm", "-rf", "build"]}, "ask", "nothing but read run unasked"),
        ({"approval_policy": "untrusted"}, {"command": "ls -l"}, "run", "it is known to do nothing but read"),
        ({"approval_policy": "never"}, {"command": "rm x"}, "run", "what stays in the sandbox runs unasked"),
        ({"approval_policy": "untrusted"}, {"tool": "apply_patch"}, "ask", "every change of files is asked about"),
        ({"approval_policy": "untrusted"}, {"tool": "shell"}, "ask", "nothing but read run unasked"),
        ({}, {"tool": "update_plan"}, "run", "does not touch files"),
        ({}, {"tool": "no_such"}, "deny", "has no tool 'no_such'"),
    ],
)
async def test_what_would_happen_to_it(
    value: dict[str, Any], expected: dict[str, Any], verdict: str, reason: str
) -> None:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]), **value)) as session:
        action = (await explain(session, **expected)).action
        assert action is not None
        assert (action.verdict, reason in action.because) == (verdict, True), action
        assert (action.sandbox is not None) == ("command" in expected)


async def test_without_a_shell_every_command_is_denied() -> None:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        mute = await session.open(shell_mode="none")
        action = (await explain(session, mute.id, command="ls")).action
        assert action is not None
        assert (action.verdict, action.because, action.set_by) == (
            "deny",
            "this conversation has no shell",
            "conversation",
        )


async def test_a_tool_of_a_server_goes_by_the_approval_of_its_server() -> None:
    async with stage(mcp_servers=served(approval="approve")) as acting:
        await acting.session.mcp.refresh(["fake"])
        action = (await explain(acting.session, tool="fake__echo")).action
        assert action is not None
        assert (action.verdict, action.because) == ("run", 'mcp_servers.fake.approval = "approve"')
    async with stage(mcp_servers=served(approval="prompt")) as acting:
        await acting.session.mcp.refresh(["fake"])
        action = (await explain(acting.session, tool="fake__echo")).action
        assert action is not None
        assert (action.verdict, "run outside the sandbox" in action.because) == ("ask", True)


async def test_a_refusal_leaves_nothing_behind() -> None:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        before = (session.conversations(), await session.metrics())
        for wrong, error in (
            ({"command": "ls", "tool": "shell"}, InvalidParamsError),
            ({"command": []}, InvalidParamsError),
            ({"command": ["a\0b"]}, InvalidParamsError),
            ({"conversation": "unknown"}, NotFoundError),
        ):
            with pytest.raises(error):
                await explain(session, **wrong)
        assert (session.conversations(), await session.metrics()) == before


async def test_a_question_has_the_same_reason_also_where_a_stricter_caller_waits() -> None:
    """The chain decides: what the child itself may do unasked is asked about while another one waits for it."""
    chosen: dict[str, str] = {}

    def answer(request: ScriptedRequest) -> ScriptedReply:
        if request.last_input == "go":
            return say("", call("conv_send", {"conversation_id": chosen["child"], "text": "touch"}))
        if request.last_input == "touch":
            return say("", call("shell", {"command": ["touch", "made"]}))
        return say("Done.")

    script = ScriptedModel([answer], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=script, approval_policy="on-request")) as session:
        child = await session.open(title="child")
        chosen["child"] = child.id
        await session.root.set_context(approval_policy="untrusted")
        stream, questions = session.root.stream("go", approver=True), []
        async for event in stream:
            if isinstance(event.data, ApprovalRequest):
                questions.append(event.data.because)
                explained = await explain(session, child.id, command=["touch", "made"])
                held = next(right for right in explained.rights if right.field == "approval_policy")
                assert (held.value, held.now) == ("on-request", "untrusted")
                assert explained.action is not None
                assert Because(explained.action.because, explained.action.set_by) == event.data.because
                await session.approvals.resolve(event.data.approval_id, "deny")
        assert (await stream.reply()).text == "Done."
        rule = "the approval policy is untrusted: only commands that are known to do nothing but read run unasked"
        assert questions == [Because(rule, "chain")]
        alone = (await explain(session, child.id, command=["touch", "made"])).action
        assert alone is not None
        assert alone.verdict == "run"


async def test_a_question_of_the_session_s_own_policy_says_so() -> None:
    script = ScriptedModel([call("shell", {"command": ["touch", "made"]}), "Done."])
    async with tertulia.Session.start(tertulia.Settings(model=script, approval_policy="untrusted")) as session:
        stream = session.root.stream("go", approver=True)
        async for event in stream:
            if isinstance(event.data, ApprovalRequest):
                assert event.data.because is not None
                assert event.data.because.set_by == "session"
                await session.approvals.resolve(event.data.approval_id, "deny")
        assert (await stream.reply()).text == "Done."
