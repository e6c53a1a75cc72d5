"""One message, followed to its end, whatever the end is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from tertulia.cli.exec.run_message import MessageOutcome, MessageRequest, StopReason, run_message, warning_text
from tertulia.errors import InvalidParamsError
from tertulia.protocol.events import (
    AgentMessage,
    BackgroundEvent,
    ConversationCloseForced,
    Event,
    EventData,
    SubscriberLagged,
    WarningEvent,
)
from tertulia.protocol.ids import ItemId
from tertulia.protocol.inputs import TextInput
from tertulia.protocol.tool_events import McpServerStatus, McpToolsChanged, NetworkAccess
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel, fail, say
from tests.deadlines import HANG_S
from tests.guards import SessionWatch

DEADLINE_S = HANG_S
HELLO = (TextInput("hello"),)


class Notebook:
    """A view that writes down what it is shown; `on` names an event at which something happens."""

    def __init__(self, on: str = "", act: object = None) -> None:
        self.types: list[str] = []
        self.reasons: list[StopReason] = []
        self.endings: list[MessageOutcome] = []
        self._on, self._act = on, act

    def show(self, event: Event) -> None:
        self.types.append(event.type)
        if event.type == self._on and callable(self._act):
            self._act()

    def stopping(self, reason: StopReason) -> None:
        self.reasons.append(reason)

    def end(self, ending: MessageOutcome) -> None:
        self.endings.append(ending)


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    watch = SessionWatch(monkeypatch)
    yield
    watch.check()


async def run(model: ScriptedModel, view: Notebook, message_request: MessageRequest | None = None) -> MessageOutcome:
    async with asyncio.timeout(DEADLINE_S):
        return await run_message(Session.start(Settings(model=model)), message_request or MessageRequest(HELLO), view)


async def test_a_task_that_is_done() -> None:
    view = Notebook()
    ending = await run(ScriptedModel(["hi"]), view)
    assert (ending.status, ending.exit_code) == ("completed", 0)
    assert ending.reply is not None
    assert ending.reply.text == "hi"
    assert {"conversation_opened", "session_configured"} <= set(view.types), "it is shown from the first event on"
    assert view.types[-1] == "task_complete"
    assert view.endings == [ending]
    assert view.reasons == []


async def test_a_task_that_fails() -> None:
    view = Notebook()
    ending = await run(ScriptedModel([fail("no")]), view)
    assert (ending.status, ending.exit_code) == ("failed", 1)
    assert view.types[-2:] == ["error", "task_complete"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_task_and_all_its_events_are_shown(number: signal.Signals) -> None:
    view = Notebook("task_started", lambda: signal.raise_signal(number))
    ending = await run(ScriptedModel([say("never", gate=asyncio.Event())]), view)
    assert ending == MessageOutcome("interrupted")
    assert ending.exit_code == 130
    assert view.reasons == ["interrupted"]
    assert view.types[-1] == "turn_aborted"
    assert view.endings == [ending]


async def test_a_signal_before_the_task_has_begun_stops_it_too() -> None:
    model = ScriptedModel([say("never", gate=asyncio.Event())])
    view = Notebook("conversation_opened", lambda: signal.raise_signal(signal.SIGINT))
    ending = await run(model, view)
    assert ending == MessageOutcome("interrupted")
    assert "task_complete" not in view.types


async def test_a_timeout_stops_the_task() -> None:
    view = Notebook()
    message_request = MessageRequest(HELLO, timeout_s=0.01)
    ending = await run(ScriptedModel([say("never", gate=asyncio.Event())]), view, message_request)
    assert (ending, ending.exit_code) == (MessageOutcome("timeout"), 124)
    assert view.reasons == ["timeout"]
    assert view.types[-1] == "turn_aborted"


async def test_a_timeout_that_is_not_needed_leaves_no_trace() -> None:
    ending = await run(ScriptedModel(["hi"]), Notebook(), MessageRequest(HELLO, timeout_s=DEADLINE_S))
    assert ending.status == "completed"


async def test_a_limit_of_time_in_the_settings_is_a_timeout_as_well() -> None:
    settings = Settings(model=ScriptedModel([say("never", gate=asyncio.Event())]), limits={"task_timeout_s": 0.01})
    async with asyncio.timeout(DEADLINE_S):
        ending = await run_message(Session.start(settings), MessageRequest(HELLO), Notebook())
    assert (ending.status, ending.exit_code) == ("timeout", 124)
    assert ending.reply is not None
    assert ending.reply.error is not None
    assert ending.reply.error.code == "timeout"


async def test_a_refused_message_is_raised_as_it_is() -> None:
    view = Notebook()
    with pytest.raises(InvalidParamsError, match="empty"):
        await run(ScriptedModel(["hi"]), view, MessageRequest((TextInput(""),)))
    assert view.endings == []


async def test_a_view_that_fails_stops_the_task_and_its_error_is_raised() -> None:
    def leave() -> None:
        raise BrokenPipeError("the reader left")

    model = ScriptedModel([say("never", gate=asyncio.Event())])
    with pytest.raises(BrokenPipeError, match="the reader left"):
        await run(model, Notebook("task_started", leave))
    assert model.streaming == 0


async def test_the_output_schema_reaches_the_model() -> None:
    model = ScriptedModel(["{}"])
    await run(model, Notebook(), MessageRequest(HELLO, output_schema={"type": "object"}))
    assert model.last_request.request.output_schema == '{"type":"object"}'


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (WarningEvent("no model", "no_model"), "no model"),
        (WarningEvent(""), "[not stored]"),
        (BackgroundEvent("sandbox: narrowed"), "sandbox: narrowed"),
        (McpServerStatus("fs", "failed", "no such file"), "MCP server fs failed: no such file"),
        (McpServerStatus("fs", "ready"), None),
        (McpToolsChanged(["fs__a"], ["fs__b"], []), None),
        (
            McpToolsChanged([], [], ["fs__a", "fs__b"]),
            "not what was shown before, and withheld: fs__a, fs__b; `tertulia mcp refresh` takes them as they are now",
        ),
        (
            NetworkAccess("a.example", 443, "refused", "a.example:443 is not allowed"),
            "network: a.example:443 is not allowed",
        ),
        (NetworkAccess("", 0, "refused", ""), "network: [not stored]"),
        (NetworkAccess("a.example", 443, "allowed", "network.allow"), None),
        (ConversationCloseForced(10.0), "the task did not stop within 10 s and was abandoned"),
        (SubscriberLagged(3, 9, 0), "events 3 to 9 were missed"),
        (SubscriberLagged(None, None, 5), None),
        (AgentMessage("hello", ItemId("1")), None),
    ],
)
def test_a_notice_is_a_sentence(data: EventData, sentence: str | None) -> None:
    assert warning_text(data) == sentence


def test_of_many_tools_that_are_withheld_only_some_are_named() -> None:
    assert "withheld: a, b, c, d, e, f, g, h, i, j, …;" in str(
        warning_text(McpToolsChanged([], [], list("abcdefghijkl")))
    )
