"""The broker speaks MCP with the SDK's own client, in both eras, for whatever is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError

from tertulia.errors import InvalidParamsError, NoApproverError
from tertulia.mcp.serve import endpoint as module
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import ServedCall
from tertulia.mcp.server_connection import CallResult, Elicitation, ElicitationResult
from tertulia.protocol.items import ImagePart, TextPart
from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S
from tests.mcp.connected import until
from tests.mcp.shop import Shop
from tests.server.brokering import News, Person, client, over_streams, refusal, text

PIXEL = "iVBORw0KGgo="
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
eras = pytest.mark.parametrize("era", ["old", "new"])


class Counter:
    def __init__(self) -> None:
        self.shop, self.nursery = Shop(), Nursery()
        load_sdk()
        self.broker = McpEndpoint(self.shop, name="shop", spawn=self.nursery.start, instructions="Ask.")

    @asynccontextmanager
    async def client(self, era: str, **options: Any) -> AsyncIterator[Client]:
        async with client(over_streams(self.broker), era, **options) as connected:
            yield connected


@pytest.fixture
async def counter() -> AsyncIterator[Counter]:
    """Nothing of any call is left behind."""
    made = Counter()
    yield made
    made.broker.close()
    await until(lambda: not len(made.nursery))
    assert made.broker.running == 0
    assert made.shop.listeners == []


@eras
async def test_tools_are_listed_and_called_with_all_that_is_known_of_them(counter: Counter, era: str) -> None:
    """Issue 8, item 6."""
    info = t.Implementation(name="codex", version="9")
    async with counter.client(era, client_info=info) as connected:
        [tool] = (await connected.list_tools()).tools
        assert (tool.name, tool.title, tool.description, tool.input_schema) == (
            *("b", "The B", "Does b."),
            {"type": "object"},
        )
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, True)
        assert connected.instructions == "Ask."
        assert text(await connected.call_tool("b", {"x": [1]})) == '{"x":[1]}'
        [call] = counter.shop.calls
        assert (call.client, call.can_be_asked) == ("codex 9", False)


@eras
async def test_everything_in_an_answer_arrives(counter: Counter, era: str) -> None:
    """Issue 8, item 5: pictures and structured content are kept."""

    async def act(call: ServedCall) -> CallResult:
        picture, odd = ImagePart(f"data:image/png;base64,{PIXEL}"), ImagePart("data:image/png;base64,!!")
        return CallResult("said", True, (picture, TextPart("more"), odd), {"n": [1, None]})

    counter.shop.act = act
    async with counter.client(era) as connected:
        result = await connected.call_tool("b")
    assert [block.type for block in result.content] == ["text", "image", "text", "text"]
    picture = result.content[1]
    assert picture.type == "image"
    assert (picture.data, picture.mime_type) == (PIXEL, "image/png")
    assert (result.structured_content, result.is_error) == ({"n": [1, None]}, True)


@eras
async def test_an_empty_answer_is_an_empty_text_and_a_picture_alone_has_none(counter: Counter, era: str) -> None:
    answers = [CallResult(""), CallResult("", parts=(ImagePart(f"data:image/png;base64,{PIXEL}"),))]

    async def act(call: ServedCall) -> CallResult:
        return answers.pop(0)

    counter.shop.act = act
    async with counter.client(era) as connected:
        assert [block.type for block in (await connected.call_tool("b")).content] == ["text"]
        assert [block.type for block in (await connected.call_tool("b")).content] == ["image"]


@eras
async def test_an_error_of_ours_is_an_answer_and_any_other_tells_nothing(
    counter: Counter, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = [InvalidParamsError("no such thing"), RuntimeError("the key is hunter2")]

    async def act(call: ServedCall) -> CallResult:
        raise errors.pop(0)

    counter.shop.act = act
    async with counter.client(era) as connected:
        refused = refusal(await connected.call_tool("b"))
        assert refused == {"ok": False, "code": "invalid_params", "reason": "no such thing"}
        assert caplog.records == []
        result = await connected.call_tool("b")
        assert refusal(result)["code"] == "internal"
        assert "hunter2" not in text(result)
        [logged] = caplog.records
        assert "hunter2" not in logged.getMessage()


@eras
async def test_progress_reaches_whoever_waits(counter: Counter, era: str) -> None:
    """Issue 8, item 5."""
    heard: list[tuple[float, float | None, str | None]] = []
    there = asyncio.Event()

    async def act(call: ServedCall) -> CallResult:
        call.progress(1, 2, "half")
        await there.wait()
        return CallResult("done")

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))
        there.set()

    counter.shop.act = act
    async with counter.client(era) as connected:
        await connected.call_tool("b", progress_callback=hear)
    assert heard == [(1, 2, "half")]


async def test_a_flood_of_progress_is_one_task_and_the_newest_word(counter: Counter) -> None:
    heard: list[float] = []
    last = asyncio.Event()
    tasks: list[int] = []

    async def act(call: ServedCall) -> CallResult:
        for step in range(10_000):
            call.progress(step, None, None)
        tasks.append(len(counter.nursery))
        await last.wait()
        return CallResult("done")

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        if done == 9_999:
            last.set()

    counter.shop.act = act
    async with counter.client("old") as connected:
        await connected.call_tool("b", progress_callback=hear)
    assert tasks == [2]
    assert heard[-1] == 9_999
    assert len(heard) < 10


@eras
async def test_a_call_that_the_client_gives_up_is_cancelled(counter: Counter, era: str) -> None:
    """Issue 8, item 5: cancellation that reaches the server."""
    begun = asyncio.Event()

    async def act(call: ServedCall) -> CallResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    counter.shop.act = act
    async with counter.client(era) as connected:
        calling = asyncio.create_task(connected.call_tool("b"))
        await begun.wait()
        assert counter.broker.running == 1
        calling.cancel()
        await counter.shop.cancelled.wait()
        await until(lambda: counter.broker.running == 0)


@eras
async def test_a_client_that_dies_takes_its_calls_with_it(counter: Counter, era: str) -> None:
    begun = asyncio.Event()

    async def act(call: ServedCall) -> CallResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    counter.shop.act = act
    with pytest.raises((MCPError, asyncio.CancelledError, ExceptionGroup)):
        async with counter.client(era) as connected:
            calling = asyncio.create_task(connected.call_tool("b"))
            await begun.wait()
            raise ExceptionGroup("gone", [OSError()])
    await counter.shop.cancelled.wait()
    calling.cancel()


async def asking(call: ServedCall) -> CallResult:
    form_answer = await call.elicit(Elicitation("shop", "Sure?", FORM))
    return CallResult(f"{form_answer.action} {form_answer.content}")


@eras
@pytest.mark.parametrize(
    ("answer", "heard"), [({"ok": True}, "accept {'ok': True}"), ("decline", "decline None"), ("cancel", "cancel None")]
)
async def test_a_call_asks_back_through_its_own_client(counter: Counter, era: str, answer: Any, heard: str) -> None:
    """X-66: by a request in the old era, by an answer that wants one in the new."""
    counter.shop.act = asking
    person = Person(answer)
    async with counter.client(era, elicitation_callback=person) as connected:
        assert text(await connected.call_tool("b")) == heard
    [question] = person.asked
    assert isinstance(question, t.ElicitRequestFormParams)
    assert (question.message, question.requested_schema) == ("Sure?", FORM)


@eras
async def test_it_may_ask_several_times_and_tell_its_progress_in_between(counter: Counter, era: str) -> None:
    heard: list[float] = []
    signal = asyncio.Event()

    async def act(call: ServedCall) -> CallResult:
        first = await asking(call)
        call.progress(1, None, None)
        await signal.wait()
        return CallResult(first.text + "; " + (await asking(call)).text)

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        signal.set()

    counter.shop.act = act
    async with counter.client(era, elicitation_callback=Person({"ok": False}, "decline")) as connected:
        output = text(await connected.call_tool("b", progress_callback=hear))
    assert output == "accept {'ok': False}; decline None"
    assert heard == [1]


@eras
async def test_a_client_that_cannot_be_asked_is_not(counter: Counter, era: str) -> None:
    counter.shop.act = asking
    async with counter.client(era) as connected:
        assert refusal(await connected.call_tool("b"))["code"] == "no_approver"


@eras
async def test_pages_are_shown_only_by_clients_that_show_pages(counter: Counter, era: str) -> None:
    async def act(call: ServedCall) -> CallResult:
        return CallResult((await call.elicit(Elicitation("shop", "Visit", {}, "https://example.com/x"))).action)

    counter.shop.act = act
    person = Person("accept")
    async with counter.client(era, elicitation_callback=person) as connected:
        assert text(await connected.call_tool("b")) == "accept"
    [question] = person.asked
    assert isinstance(question, t.ElicitRequestURLParams)
    assert question.url == "https://example.com/x"
    call = counter.shop.calls[0]
    async with counter.client(era) as connected:
        assert refusal(await connected.call_tool("b"))["code"] == "no_approver"
    with pytest.raises((NoApproverError, asyncio.CancelledError)):
        await asyncio.wait_for(counter.shop.calls[1].elicit(Elicitation("shop", "Sure?", FORM)), 1)
    assert call.can_be_asked


async def test_a_question_that_nobody_asks_any_more_does_not_keep_the_answer(counter: Counter) -> None:
    """The call goes on by itself while the person still thinks."""

    async def act(call: ServedCall) -> CallResult:
        try:
            async with asyncio.timeout(0.05):
                await call.elicit(Elicitation("shop", "Sure?", FORM))
        except TimeoutError:
            return CallResult("without you")
        raise AssertionError

    counter.shop.act = act
    person = Person("decline")
    person.may_answer.clear()
    async with counter.client("old", elicitation_callback=person) as connected:
        assert text(await connected.call_tool("b")) == "without you"
        person.may_answer.set()


async def test_a_ticket_is_good_once_and_for_nobody_else(counter: Counter) -> None:
    counter.shop.act = asking
    async with counter.client("new", elicitation_callback=Person()) as connected:
        answer = await connected.session.call_tool("b", allow_input_required=True)
        assert isinstance(answer, t.InputRequiredResult)
        assert counter.broker.running == 1
        answers: Any = {"question": t.ElicitResult(action="accept", content={"ok": True})}
        for wrong in ("", "x" * 10_000, f"{answer.request_state}x"):
            with pytest.raises(MCPError, match="does not wait any more"):
                await connected.session.call_tool("b", input_responses=answers, request_state=wrong)
        response = await connected.session.call_tool("b", input_responses=answers, request_state=answer.request_state)
        assert text(response) == "accept {'ok': True}"
        with pytest.raises(MCPError, match="does not wait any more"):
            await connected.session.call_tool("b", input_responses=answers, request_state=answer.request_state)
        assert len(counter.shop.calls) == 1


async def test_an_answer_that_is_none_is_a_cancellation(counter: Counter) -> None:
    counter.shop.act = asking
    async with counter.client("new", elicitation_callback=Person()) as connected:
        answer = await connected.session.call_tool("b", allow_input_required=True)
        assert isinstance(answer, t.InputRequiredResult)
        response = await connected.session.call_tool("b", request_state=answer.request_state)
        assert text(response) == "cancel None"


async def test_a_call_that_waits_for_a_client_ends_with_the_broker(counter: Counter) -> None:
    counter.shop.act = asking
    async with counter.client("new", elicitation_callback=Person()) as connected:
        assert isinstance(await connected.session.call_tool("b", allow_input_required=True), t.InputRequiredResult)
    assert counter.broker.running == 1
    counter.broker.close()
    await until(lambda: counter.broker.running == 0)
    assert counter.shop.cancelled.is_set()
    counter.shop.listeners.append(counter.shop.change)
    counter.shop.listeners.clear()
    counter.broker = McpEndpoint(counter.shop, name="shop", spawn=counter.nursery.start)


async def test_a_client_of_the_old_era_hears_that_tools_changed(counter: Counter) -> None:
    """Issue 8, item 3: `tools/list_changed`; a storm is a word or two."""
    news = News()
    async with counter.client("old", message_handler=news) as connected:
        counter.shop.change()
        await connected.list_tools()
        assert news.methods == []
        for _ in range(10_000):
            counter.shop.change()
        assert len(counter.nursery) <= 2
        await news.came.wait()
        await connected.list_tools()
        assert set(news.methods) == {"notifications/tools/list_changed"}
        assert len(news.methods) <= 2


async def test_all_clients_of_the_old_era_hear_it_and_those_who_left_are_forgotten(counter: Counter) -> None:
    """Issue 8, item 3: an agent and its helpers share one broker, each over a stream of its own."""
    first, second = News(), News()
    async with counter.client("old", message_handler=first) as one:
        await one.list_tools()
        async with counter.client("old", message_handler=second) as other:
            await other.list_tools()
            await one.list_tools()
            assert len(counter.broker._users._clients) == 2
            counter.shop.change()
            async with asyncio.timeout(HANG_S):
                await first.came.wait()
                await second.came.wait()
        await until(lambda: len(counter.broker._users._clients) == 1)
    await until(lambda: not counter.broker._users._clients)


async def test_a_client_of_the_new_era_hears_it_if_it_listens(counter: Counter) -> None:
    news = News()
    async with counter.client("new", message_handler=news) as connected:
        await connected.list_tools()
        async with connected.listen(tools_list_changed=True) as listening:
            counter.shop.change()
            event = await anext(aiter(listening))
            assert type(event).__name__ == "ToolsListChanged"


async def test_more_calls_than_anybody_makes_are_refused(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CALLS", 2)
    go_on = asyncio.Event()

    async def act(call: ServedCall) -> CallResult:
        await go_on.wait()
        return CallResult("done")

    counter.shop.act = act
    async with counter.client("new") as connected, asyncio.TaskGroup() as group:
        two = [group.create_task(connected.call_tool("b")) for _ in range(2)]
        await until(lambda: counter.broker.running == 2)
        assert refusal(await connected.call_tool("b"))["code"] == "busy"
        go_on.set()
        assert [text(await call) for call in two] == ["done", "done"]


def test_the_elicited_of_nothing_is_a_cancellation() -> None:
    assert module._elicitation_result(None) == ElicitationResult("cancel")
