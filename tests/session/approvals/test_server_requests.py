"""What MCP servers ask back in the middle of a call: of a person and of the model, allowed or denied (C16)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import (
    ApprovalDeniedError,
    InvalidParamsError,
    NoApproverError,
    NotFoundError,
    UnsupportedByBackendError,
)
from tertulia.mcp.serve.sources import ServedCall
from tertulia.mcp.server_connection import Elicitation, ElicitationResult, SamplingRequest, SamplingResult
from tertulia.policy.approval_policy import NEVER, ON_REQUEST
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.session.approvals.elicitations import Elicitations
from tertulia.session.approvals.server_requests import MAX_TOKENS, ServerRequests
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare, plain
from tests.server.brokering import WAITED_FOR
from tests.session.staging import Stage, stage
from tests.tables import each_row
from tests.tools.serving import DEFINITION, SCHEMA, Bench

QUESTION = Elicitation("fs", "Who are you?", SCHEMA)
SAMPLING = SamplingRequest("fs", (("user", "Say something."),), "Be brief.", 1_000_000)


class Asked:
    """One call in whose name a server asks."""

    def __init__(
        self, *, attended: bool = True, policy: Any = ON_REQUEST, aside: Any = None, **definition: Any
    ) -> None:
        self.bench = Bench(attended=attended)
        self.elicitations = Elicitations()
        context = replace(self.bench.call(approval_policy=policy, callers=("root",)), aside=aside)
        self.caller = ServerRequests(self.bench.approvals, self.elicitations).caller(
            replace(DEFINITION, **definition), context
        )


@pytest.mark.parametrize(
    "refusing", [{"elicitation": False}, {"policy": NEVER}, {"attended": False}], ids=lambda value: next(iter(value))
)
async def test_an_elicitation_is_denied_unless_everything_allows_it(refusing: dict[str, Any]) -> None:
    """C16."""
    caller = Asked(**refusing)
    with pytest.raises(NoApproverError):
        await caller.caller.elicit(QUESTION)
    assert caller.bench.told == []
    assert caller.elicitations.pending() == []


async def test_an_elicitation_goes_to_the_conversation_whose_call_caused_it() -> None:
    caller = Asked()
    asking = asyncio.create_task(caller.caller.elicit(QUESTION))
    await caller.bench.until(lambda: bool(caller.elicitations.pending()))
    [event] = caller.elicitations.pending()
    assert event.chain == ("root",)
    caller.elicitations.resolve(event.elicitation_id, "allow", {"name": "Ada"})
    assert await asking == ElicitationResult("accept", {"name": "Ada"})
    assert caller.caller.conversation_id == "a"


async def answered(question: SamplingRequest) -> SamplingResult:
    return SamplingResult(f"at most {question.max_tokens}", "scripted")


@each_row(
    ("refusing", "error"),
    [
        ({"aside": answered}, NoApproverError),
        ({"sampling": True}, UnsupportedByBackendError),
        ({"sampling": True, "aside": answered, "policy": NEVER}, NoApproverError),
        ({"sampling": True, "aside": answered, "attended": False}, NoApproverError),
    ],
)
async def test_sampling_is_denied_unless_everything_allows_it(refusing: dict[str, Any], error: Any) -> None:
    """C16: off unless the configuration says so, and then somebody is asked."""
    caller = Asked(**refusing)
    with pytest.raises(error):
        await caller.caller.sample(SAMPLING)
    assert caller.bench.told == []


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_sampling_is_asked_for_each_time_and_bounded(decision: Any) -> None:
    caller = Asked(sampling=True, aside=answered)
    asking = asyncio.create_task(caller.caller.sample(SAMPLING))
    request = await caller.bench.asked()
    assert request.kind == "mcp"
    assert request.title == "the MCP server fs wants an answer of the model"
    assert request.detail == (
        "instructions, in the words of the server:\n│ Be brief.\nuser, in the words of the server:\n│ Say something."
    )
    assert request.scopes == ["once"]
    caller.bench.approvals.resolve(request.approval_id, decision)
    if decision == "deny":
        with pytest.raises(ApprovalDeniedError):
            await asking
        return
    assert await asking == SamplingResult(f"at most {MAX_TOKENS}", "scripted")


# ── through a session, with real servers ─────────────────────────────────────────────────────────────────────


def served(kind: Any = bare, **more: Any) -> dict[str, Any]:
    command, *args = kind()
    return {"fake": {"command": command, "args": args, "approval": "approve", **WAITED_FOR, **more}}


def output(acting: Stage) -> str:
    (item,) = acting.outputs(acting.root)
    return item.text


@pytest.mark.parametrize("kind", [bare, plain], ids=["old era", "new era"])
async def test_a_person_answers_a_server_over_the_one_operation(kind: Any) -> None:
    """Issue 8, item 5: both eras."""
    asking = call("fake__ask", {"question": "May I?"})
    async with stage(asking, "Done.", mcp_servers=served(kind)) as acting, acting.session.events(attend=True):
        task = acting.begin(acting.root.message("go"))
        event = await acting.until("elicitation_request")
        assert isinstance(event.data, ElicitationRequest)
        assert (event.conversation_id, event.data.server) == (acting.root.id, "fake")
        assert "May I?" in event.data.message
        approvals = acting.session.approvals
        assert await approvals.elicitations() == await approvals.elicitations("root") == [event.data]
        assert await approvals.pending() == []
        number = event.data.elicitation_id
        for wrong in ({"scope": "session"}, {"ttl_s": 1.0}, {"content": {"ok": "perhaps"}}):
            with pytest.raises(InvalidParamsError):
                await approvals.resolve(number, "allow", **wrong)
        assert await approvals.resolve(number, "allow", content={"ok": True})
        assert not await approvals.resolve(number, "deny")
        assert (await task).text == "Done."
        assert "accept" in output(acting)
        types = acting.events.types()
        assert types.index("mcp_tool_call_begin") < types.index("elicitation_request")
        assert types.index("elicitation_resolved") < types.index("mcp_tool_call_end")
        assert await approvals.elicitations() == []


async def test_where_nobody_may_be_asked_the_server_hears_no_and_nobody_else_hears_anything() -> None:
    """C16."""
    asking = call("fake__ask", {"question": "May I?"})
    async with stage(asking, "Done.", mcp_servers=served(), approval_policy="never") as acting:
        async with acting.session.events(attend=True):
            assert (await acting.root.message("go")).text == "Done."
        assert "decline" in output(acting)
        assert "elicitation_request" not in acting.events.types()


async def test_a_function_that_answers_approvals_is_not_taken_for_one_that_answers_elicitations() -> None:
    """A5: it is never asked these, so that a question would wait for its time limit."""
    asking = call("fake__ask", {"question": "May I?"})
    async with stage(asking, "Done.", mcp_servers=served()) as acting:
        with contextlib.closing(acting.session.approvals.answer_with(lambda request: "allow")):
            await acting.root.message("go")
        assert "elicitation_request" not in acting.events.types()


async def test_an_interrupted_call_withdraws_its_question() -> None:
    asking = call("fake__ask", {"question": "May I?"})
    async with stage(asking, "Done.", mcp_servers=served()) as acting, acting.session.events(attend=True):
        task = acting.begin(acting.root.message("go"))
        await acting.until("elicitation_request")
        assert await acting.root.interrupt()
        await task
        assert await acting.session.approvals.elicitations() == []
        assert acting.events.types().count("mcp_tool_call_end") == 1
        [resolved] = [event for event in acting.events.drain() if event.type == "elicitation_resolved"]
        assert resolved.data["action"] == "cancel"


async def test_content_belongs_to_elicitations_alone() -> None:
    async with stage() as acting:
        with pytest.raises(InvalidParamsError, match="content is for elicitations"):
            await acting.session.approvals.resolve("x", "allow", content={})
        with pytest.raises(NotFoundError):
            await acting.session.approvals.resolve("x", "allow")


async def test_the_model_answers_a_server_without_tools_and_on_the_tasks_account() -> None:
    """Issue 8, item 5: sampling, after somebody has allowed it."""

    def reply(request: Any) -> Any:
        return say("forty-two") if request.instructions == "s" else replies.pop(0)

    replies = [call("fake__sample", {"text": "what?"}), say("Done.")]
    model = ScriptedModel([reply], repeat=True)
    async with stage(model=model, mcp_servers=served(sampling=True)) as acting, acting.session.events(attend=True):
        task = acting.begin(acting.root.message("go"))
        event = await acting.until("approval_request")
        assert isinstance(event.data, ApprovalRequest)
        assert event.data.title == "the MCP server fake wants an answer of the model"
        await acting.session.approvals.resolve(event.data.approval_id, "allow")
        done = await task
        assert done.text == "Done."
        assert "forty-two" in output(acting)
        aside = next(request for request in model.requests if request.instructions == "s")
        assert list(aside.tools) == []
        assert len(list(aside.items)) == 1
        assert (await acting.session.metrics()).session.model_requests == 3
        assert done.usage.total_tokens == (await acting.session.metrics()).session.usage.total_tokens
        assert "forty-two" not in str(await acting.root.history())


async def test_without_the_setting_a_server_gets_no_answer_of_the_model() -> None:
    """C16."""
    sampling = call("fake__sample", {"text": "what?"})
    async with stage(sampling, "Done.", mcp_servers=served()) as acting, acting.session.events(attend=True):
        assert (await acting.root.message("go")).text == "Done."
        assert "approval_request" not in acting.events.types()
        assert len(acting.model.requests) == 2


@each_row(
    ("expected", "heard"),
    [
        (ElicitationResult("accept", {"ok": True}), '"action": "accept"'),
        (ElicitationResult("accept", {"ok": "perhaps"}), '"action": "decline"'),
        (ElicitationResult("decline"), '"action": "decline"'),
        (None, '"action": "decline"'),
    ],
    ids=["accepts", "accepts with something else", "declines", "cannot ask"],
)
async def test_behind_the_broker_it_is_the_client_who_asks_its_person(expected: Any, heard: str) -> None:
    questions: list[Elicitation] = []

    async def elicit(request: Elicitation) -> ElicitationResult:
        questions.append(request)
        if expected is None:
            raise NoApproverError("this client cannot ask")
        return expected

    async with stage(mcp_servers=served()) as acting:
        conversation = acting.parts.conversations.find("root")
        calling = ServedCall("fake__ask", {"question": "May I?"}, "client", True, elicit, lambda *_: None)
        await acting.parts.servers.settle()
        async with asyncio.timeout(HANG_S):
            answer = await ServedConversation(acting.parts, conversation).call(calling)
        assert heard in answer.text
        assert [question.message for question in questions] == ["The MCP server fake asks: May I?"]
        assert await acting.session.approvals.elicitations() == []
