"""What every wire must do, whoever is at the other end of it.

A wire's test file makes a subclass whose name begins with Test and says how its provider is brought to perform
each act. Requests come from `a_request`. Everything here waits at most `DEADLINE` seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    Dialect,
    ItemsDialect,
    ModelRequest,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
    Wire,
)
from tertulia.protocol.ids import CallId, ItemId, new_conversation_id, new_item_id
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)
from tertulia.protocol.tool_spec import ToolSpec
from tests.deadlines import HANG_S
from tests.thorough import examples

DEADLINE = HANG_S

Act = Literal[
    "answers",  # with a text of several deltas
    "thinks",  # reasoning, then a text
    "calls_tools",  # two of them
    "says_nothing",  # an answer without any item
    "retries",  # withdraws what it began and then answers
    "fails",
    "overflows",  # fails because the history is too long
    "hangs",  # takes the request and never says anything
    "stalls",  # begins a text and never goes on
]
ANSWERS: tuple[Act, ...] = ("answers", "thinks", "calls_tools", "says_nothing", "retries")
FAILURES: tuple[Act, ...] = ("fails", "overflows")


class WireContract:
    """The tests; each act must be performed for any number of requests."""

    def wire_that(self, act: Act) -> AbstractAsyncContextManager[Wire]:
        """A wire whose provider performs the act."""
        raise NotImplementedError

    def open_streams(self, wire: Wire) -> int:
        """How many connections are in use for an answer, seen from the far side where there is one."""
        raise NotImplementedError

    @pytest.mark.parametrize("act", ANSWERS)
    async def test_an_answer_is_whole_and_ends_with_finished_alone(self, act: Act) -> None:
        async with self.wire_that(act) as wire:
            pieces = await read(wire, a_request())
            assert isinstance(pieces[-1], AnswerEnd)
            check_answer(pieces)
            assert self.open_streams(wire) == 0

    @pytest.mark.parametrize("act", FAILURES)
    async def test_a_failure_is_said_and_not_raised(self, act: Act) -> None:
        async with self.wire_that(act) as wire:
            pieces = await read(wire, a_request())
            assert isinstance(pieces[-1], AnswerFailure)
            assert pieces[-1].message
            assert pieces[-1].overflow is (act == "overflows")
            check_answer(pieces)
            assert self.open_streams(wire) == 0

    async def test_each_act_is_what_it_is_called(self) -> None:
        items_saids = {act: await self._items_said(act) for act in ANSWERS}
        assert [type(item) for item in items_saids["answers"]] == [AssistantMessage]
        assert [type(item) for item in items_saids["thinks"]] == [Reasoning, AssistantMessage]
        assert [type(item) for item in items_saids["calls_tools"]] == [ToolCall, ToolCall]
        assert items_saids["says_nothing"] == []
        assert [type(item) for item in items_saids["retries"]] == [AssistantMessage]

    async def test_no_two_items_share_an_id_and_no_two_calls_a_call_id(self) -> None:
        items = [item for act in ANSWERS for item in await self._items_said(act)]
        assert len({item.id for item in items}) == len(items)
        calls = [item.call_id for item in await self._items_said("calls_tools") if isinstance(item, ToolCall)]
        assert len(set(calls)) == 2

    async def test_streams_that_run_at_once_do_not_mix(self) -> None:
        async with self.wire_that("thinks") as wire:
            async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
                readers = [group.create_task(read(wire, a_request(f"Question {n}"))) for n in range(10)]
            for reader in readers:
                check_answer(reader.result())
            assert self.open_streams(wire) == 0

    async def test_a_stream_that_is_never_read_can_be_closed(self) -> None:
        async with self.wire_that("answers") as wire:
            stream = wire.stream(a_request())
            await close(stream)
            assert self.open_streams(wire) == 0

    async def test_closing_a_stream_half_way_lets_go_before_it_returns(self) -> None:
        async with self.wire_that("answers") as wire:
            stream = wire.stream(a_request())
            async with asyncio.timeout(DEADLINE):
                assert isinstance(await anext(stream), TextDelta)
            assert self.open_streams(wire) == 1
            await close(stream)
            assert self.open_streams(wire) == 0
            await close(stream)

    @pytest.mark.parametrize("act", ["hangs", "stalls"])
    async def test_cancelling_the_reader_lets_go_before_it_returns(self, act: Act) -> None:
        async with self.wire_that(act) as wire:
            heard: list[AnswerPiece] = []
            async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
                reader = group.create_task(read(wire, a_request(), heard))
                await until(lambda: self.open_streams(wire) == 1 and (act == "hangs" or len(heard) > 0))
                assert reader.cancel()
            assert reader.cancelled()
            assert not any(isinstance(piece, AnswerEnd | AnswerFailure) for piece in heard)
            assert self.open_streams(wire) == 0

    async def test_one_stream_that_hangs_does_not_stop_another_from_being_cancelled(self) -> None:
        async with self.wire_that("hangs") as wire:
            async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
                first, second = (group.create_task(read(wire, a_request())) for _ in range(2))
                await until(lambda: self.open_streams(wire) == 2)
                first.cancel()
                await until(first.done)
                assert self.open_streams(wire) == 1
                second.cancel()
            assert self.open_streams(wire) == 0

    async def test_it_can_be_closed_twice(self) -> None:
        async with self.wire_that("answers") as wire, asyncio.timeout(DEADLINE):
            await read(wire, a_request())
            await wire.close()
            await wire.close()

    async def test_it_says_what_it_is(self) -> None:
        async with self.wire_that("answers") as wire:
            provider, slash, model = wire.name.partition("/")
            assert (bool(provider), slash, bool(model)) == (True, "/", True)
            assert wire.family
            assert wire.context_window > 0

    async def test_its_dialect_is_free_of_context(self) -> None:
        async with self.wire_that("answers") as wire:
            check_dialect(wire.dialect)

    async def _items_said(self, act: Act) -> list[AssistantMessage | Reasoning | ToolCall]:
        async with self.wire_that(act) as wire:
            return [piece.item for piece in await read(wire, a_request()) if isinstance(piece, AnswerItem)]


# ---- asking and reading


def a_request(
    text: str = "Hello",
    *,
    items: Iterable[Item] | None = None,
    instructions: str = "You are a test.",
    tools: tuple[ToolSpec, ...] = (),
    dialect: Dialect | None = None,
    store: bool = True,
    output_schema: str | None = None,
) -> ModelRequest:
    """A request as a conversation would make it: one user message, unless `items` say otherwise."""
    spelled = dialect or ItemsDialect()
    history = [UserMessage(new_item_id(), text_parts(text))] if items is None else list(items)
    encoded = spelled.encode_items(history)
    return ModelRequest(
        conversation_id=new_conversation_id(),
        model="model",
        instructions=instructions,
        items=history,
        chunks=(encoded,) if encoded else (),
        tools=tools,
        tools_json=spelled.encode_tools(tools),
        cache_key="key",
        store=store,
        output_schema=output_schema,
    )


async def read(wire: Wire, request: ModelRequest, heard: list[AnswerPiece] | None = None) -> list[AnswerPiece]:
    """All pieces of an answer; `heard` has them as they come."""
    pieces: list[AnswerPiece] = [] if heard is None else heard
    async with asyncio.timeout(DEADLINE), aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            pieces.append(piece)  # noqa: PERF401  a comprehension would be heard only at its end
    return pieces


async def close(stream: AsyncGenerator[AnswerPiece, None]) -> None:
    """Stop listening, in time."""
    async with asyncio.timeout(DEADLINE):
        await stream.aclose()


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until it holds."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110  any condition will do, not only our own events
            await asyncio.sleep(0)


# ---- what must hold


def check_answer(pieces: Sequence[AnswerPiece]) -> None:
    """One ending, at the end; deltas add up to the items that bear their ids; token counts add up."""
    endings = [piece for piece in pieces if isinstance(piece, AnswerEnd | AnswerFailure)]
    assert len(endings) == 1
    assert pieces[-1] is endings[0]
    retries = [number for number, piece in enumerate(pieces) if isinstance(piece, RetryNotice)]
    counted = pieces[retries[-1] + 1 :] if retries else pieces
    withdrawn = {piece.item_id for piece in pieces[: len(pieces) - len(counted)] if _is_delta(piece)}
    begun: dict[ItemId, str] = {}
    for piece in counted:
        match piece:
            case TextDelta(item_id, text) | ReasoningDelta(item_id, text):
                assert text, "an empty delta says nothing"
                assert item_id not in withdrawn
                begun[item_id] = begun.get(item_id, "") + text
            case AnswerItem(AssistantMessage() | Reasoning() as item):
                assert begun.pop(item.id, item.text) == item.text
            case AnswerEnd(usage):
                assert begun == {}, "deltas of an item that was never said"
                assert min(usage.input_tokens, usage.output_tokens) >= 0
                assert usage.total_tokens >= usage.input_tokens + usage.output_tokens
            case _:
                pass


def _is_delta(piece: AnswerPiece) -> bool:
    return isinstance(piece, TextDelta | ReasoningDelta)


def check_dialect(dialect: Dialect) -> None:
    """The law of dialects, for any items."""

    @settings(max_examples=examples(300))
    @given(st.lists(items(), max_size=6), st.lists(items(), max_size=6))
    def law(left: list[Item], right: list[Item]) -> None:
        check_free_of_context(dialect, left, right)

    law()
    assert dialect.encode_items([]) == b""
    assert json.loads(dialect.encode_tools(())) == []


def check_free_of_context(dialect: Dialect, left: list[Item], right: list[Item]) -> None:
    """The bytes of some items do not depend on their neighbours, and are JSON once they have brackets."""
    apart = [encoded for encoded in (dialect.encode_items(left), dialect.encode_items(right)) if encoded]
    assert dialect.encode_items([*left, *right]) == b",".join(apart)
    assert isinstance(json.loads(b"[%b]" % b",".join(apart)), list)


_ids = st.text("0123456789abcdef", min_size=16, max_size=16).map(ItemId)
_call_ids = st.text(min_size=1, max_size=8).map(CallId)
_parts = st.lists(
    st.builds(TextPart, st.text()) | st.builds(ImagePart, st.just("data:image/png;base64,AA==")), max_size=3
).map(tuple)


def items() -> st.SearchStrategy[Item]:
    """Any item that a history can hold."""
    return st.one_of(
        st.builds(UserMessage, _ids, _parts, st.none() | st.text(), st.booleans()),
        st.builds(AssistantMessage, _ids, _parts),
        st.builds(Reasoning, _ids, st.text(), st.sampled_from(["", "items"]), st.none() | st.text()),
        st.builds(ToolCall, _ids, _call_ids, st.text(), st.text(), st.sampled_from(["function", "custom"])),
        st.builds(ToolOutput, _ids, _call_ids, _parts, st.booleans()),
        st.builds(Summary, _ids, st.text(), st.integers(0, 1000)),
    )
