"""Internal tools, called back: the token says who it is, and every call is written down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.canvas import CanvasStore
from tertulia.context.definitions import InternalCaller, ToolDefinition
from tertulia.context.internal_tools import AuditRecord, InternalTools, shorten_arguments
from tertulia.context.providers.canvas import CanvasContextProvider
from tertulia.context.tokens import SessionTokenStore
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.testing import FakeClock

EMPLOYEE = AgentInstanceMeta(name="ada", archetype="employee")


class InternalStage:
    """A dispatcher with one agent in it."""

    def __init__(self, timeout_s: float = 20.0) -> None:
        self.clock = FakeClock(1_700_000_000.0)
        self.tokens = SessionTokenStore(self.clock, ttl_s=60)
        self.canvases = CanvasStore()
        self.records: list[AuditRecord] = []
        handlers = {**self.canvases.handlers(), "bell.ring": self.ring, "bell.break": self.breaks, "bell.odd": self.odd}
        self.internal = InternalTools(self.tokens, self.records.append, handlers, clock=self.clock, timeout_s=timeout_s)
        self.rung: list[tuple[InternalCaller, Any]] = []
        self.token = self.enter("ada", "c1", "employee", 4711)

    def enter(self, name: str, session: str, archetype: str, pid: int | None = None) -> str:
        meta = AgentInstanceMeta(name=name, archetype=archetype)
        self.canvases.open(session, archetype)
        self.internal.admit(session, meta, [*CanvasContextProvider().get_tools(name, EMPLOYEE), *TOOLS])
        return self.tokens.generate(name, session, pid)

    def ring(self, call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
        self.rung.append((call, arguments))
        self.clock.advance(0.25)
        return {"rung": len(self.rung)}

    async def breaks(self, call: InternalCaller, arguments: dict[str, Any]) -> None:
        raise ZeroDivisionError

    async def odd(self, call: InternalCaller, arguments: dict[str, Any]) -> object:
        if arguments.get("hang"):
            await asyncio.get_running_loop().create_future()
        if arguments.get("late"):
            raise TimeoutError
        return object()


def tool(name: str, method: str, scope: Any = "all", **changes: Any) -> ToolDefinition:
    return ToolDefinition(name, "", changes.pop("parameters", None), method, scope, **changes)


TOOLS = [
    tool("ring", "bell.ring", parameters={"tone": "string"}),
    tool("break", "bell.break"),
    tool("odd", "bell.odd"),
    tool("boss", "bell.ring", "employee"),
    tool("nobody", "bell.nobody"),
    tool("own", "bell.own", handler=lambda call, arguments: [call.tool]),
]


@pytest.fixture
def stage() -> InternalStage:
    return InternalStage()


async def test_a_call_is_answered_and_recorded(stage: InternalStage) -> None:
    """S001-48, S001-50."""
    answer = await stage.internal.call(stage.token, "ring", {"tone": "c"}, source="mcp", pid=99)
    assert answer == {"rung": 1}
    assert stage.rung == [(InternalCaller("ada", "c1", EMPLOYEE, "ring"), {"tone": "c"})]
    assert stage.records == [
        AuditRecord(
            at="2023-11-14T22:13:20.250Z",
            source="mcp",
            tool="ring",
            params="tone: 'c'",
            token_prefix=stage.token[:8],
            agent_name="ada",
            session_id="c1",
            pid=99,
            ok=True,
            result="ok",
            duration_ms=250,
        )
    ]


async def test_the_agent_s_name_comes_from_the_token(stage: InternalStage) -> None:
    """S001-48: never from parameters."""
    await stage.internal.call(stage.token, "ring", {"agentName": "eva", "agent_name": "eva"}, source="cli")
    assert stage.rung[0][0].agent_name == "ada"
    assert stage.records[0].agent_name == "ada"
    assert stage.records[0].pid == 4711, "the process that the token was given to"


async def test_a_token_of_another_session_reaches_that_session_only(stage: InternalStage) -> None:
    """S001-48, HARDENING D6."""
    eva = stage.enter("eva", "c2", "service")
    await stage.internal.call(eva, "canvas_update", {"html": "<p>eva</p>"}, source="mcp")
    await stage.internal.call(stage.token, "canvas_update", {"html": "<p>ada</p>"}, source="mcp")
    assert {key: canvas.html for key, canvas in stage.canvases.list().items()} == {
        "c1": "<p>ada</p>",
        "c2": "<p>eva</p>",
    }


def lower(stage: InternalStage) -> None:
    stage.internal.admit("c1", AgentInstanceMeta(name="ada", archetype="service"), TOOLS)


def expire(stage: InternalStage) -> None:
    stage.clock.advance(60)


def revoke(stage: InternalStage) -> None:
    stage.tokens.revoke_session("c1")


def dismiss(stage: InternalStage) -> None:
    stage.internal.dismiss("c1")
    stage.internal.dismiss("c1")


def impatient(stage: InternalStage) -> None:
    stage.internal._timeout_s = 0.05


def nothing(stage: InternalStage) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "spoil", "name", "arguments", "code"),
    [
        (nothing, lambda token: "", "ring", {}, "invalid_params"),
        (nothing, lambda token: None, "ring", {}, "invalid_params"),
        (nothing, lambda token: token[:63], "ring", {}, "invalid_params"),
        (nothing, lambda token: token + "0", "ring", {}, "invalid_params"),
        (nothing, lambda token: token.upper() + "X", "ring", {}, "invalid_params"),
        (expire, str, "ring", {}, "invalid_params"),
        (revoke, str, "ring", {}, "invalid_params"),
        (dismiss, str, "ring", {}, "not_found"),
        (nothing, str, "bell", {}, "not_found"),
        (nothing, str, "bell.ring", {}, "not_found"),
        (nothing, str, None, {}, "not_found"),
        (nothing, str, ["ring"], {}, "not_found"),
        (lower, str, "boss", {}, "approval_denied"),
        (nothing, str, "nobody", {}, "method_not_found"),
        (nothing, str, "ring", {"tone": 5}, "invalid_params"),
        (nothing, str, "ring", ["c"], "invalid_params"),
        (nothing, str, "canvas_update", None, "invalid_params"),
        (nothing, str, "canvas_update", {"html": 5}, "invalid_params"),
        (nothing, str, "canvas_update", {"html": "x" * 524_289}, "invalid_params"),
        (nothing, str, "odd", {}, "internal"),
        (impatient, str, "odd", {"hang": True}, "timeout"),
    ],
)
async def test_a_call_that_is_refused_does_nothing_and_is_recorded(
    stage: InternalStage, before: Any, spoil: Any, name: Any, arguments: Any, code: str
) -> None:
    """S001-47, S001-48, S001-49, S001-50, HARDENING D6: the scope is looked at again when the call is made."""
    before(stage)
    with pytest.raises(TertuliaError) as refused:
        await stage.internal.call(spoil(stage.token), name, arguments, source="mcp")
    assert refused.value.code == code
    assert (stage.rung, stage.canvases.list()) == ([], {})
    (record,) = stage.records
    assert (record.ok, record.result) == (False, code)
    assert len(record.token_prefix) <= 8
    assert len(record.params) <= 201


@pytest.mark.parametrize(
    ("name", "arguments", "error"), [("break", {}, ZeroDivisionError), ("odd", {"late": 1}, TimeoutError)]
)
async def test_what_a_handler_raises_passes_through_and_is_recorded(
    stage: InternalStage, name: str, arguments: dict[str, Any], error: type[Exception]
) -> None:
    """S001-50."""
    with pytest.raises(error):
        await stage.internal.call(stage.token, name, arguments, source="native")
    assert [(record.ok, record.result) for record in stage.records] == [(False, "internal")]


async def test_a_call_that_is_cancelled_is_recorded(stage: InternalStage) -> None:
    """S001-50."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await stage.internal.call(stage.token, "odd", {"hang": True}, source="native")
    assert [(record.ok, record.result) for record in stage.records] == [(False, "cancelled")]


async def test_a_tool_may_bring_its_own_answer(stage: InternalStage) -> None:
    """S001-39: one file is enough."""
    assert await stage.internal.call(stage.token, "own", source="native") == ["own"]


async def test_a_coroutine_behind_a_plain_function_is_awaited(stage: InternalStage) -> None:
    meta = AgentInstanceMeta(name="ada")

    async def later() -> int:
        return 7

    stage.internal.admit("c1", meta, [tool("later", "x.y", handler=lambda call, arguments: later())])
    assert await stage.internal.call(stage.token, "later", {}, source="native") == 7


async def test_a_token_can_be_asked_whose_it_is(stage: InternalStage) -> None:
    """S001-47."""
    entry = stage.internal.validate_token(stage.token)
    assert (entry.agent_name, entry.session_id, entry.pid) == ("ada", "c1", 4711)
    for token in ("", None, "0" * 64):
        with pytest.raises(InvalidParamsError, match="token is not valid"):
            stage.internal.validate_token(token)


async def test_what_may_be_called_depends_on_what_the_agent_is_now(stage: InternalStage) -> None:
    """S001-48."""
    await stage.internal.call(stage.token, "boss", {}, source="native")
    lower(stage)
    with pytest.raises(TertuliaError) as refused:
        await stage.internal.call(stage.token, "boss", {}, source="native")
    assert refused.value.code == "approval_denied"
    await stage.internal.call(stage.token, "ring", {"tone": "low"}, source="native")


async def test_a_record_never_holds_a_token(stage: InternalStage) -> None:
    """S001-45, S001-50: not even one that was passed as an argument, or as the name of a tool."""
    await stage.internal.call(stage.token, "ring", {"tone": stage.token, "x": f"--token {stage.token}"}, source="cli")
    with pytest.raises(TertuliaError):
        await stage.internal.call(stage.token, stage.token, stage.token, source="cli")
    shown = repr(stage.records)
    assert stage.token[:8] in shown
    assert stage.token[:9] not in shown


def test_arguments_are_shortened() -> None:
    """S001-50."""
    assert shorten_arguments({"a": 1, "b": None, "c": [1, 2], "d": {"e": 1}}) == "a: 1, b: None, c: list, d: dict"
    assert shorten_arguments({"html": "x" * 1000}) == f"html: '{'x' * 60}'… (1,000 characters)"
    assert shorten_arguments(None) == "None"
    assert len(shorten_arguments({str(n) * 100: "y" * 100 for n in range(1000)})) == 201
