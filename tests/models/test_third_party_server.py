"""Our three wires against a server that we did not write, and a real model behind it.

A mock says what its author believes of an API; llama.cpp's server was written by others, from the same documents.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tertulia.models.catalog import ModelProvider, WireName
from tertulia.models.choice import discover_local_models
from tertulia.models.http.chat import ChatWire
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
from tertulia.models.provider_keys import ProviderKeys
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerPiece, RetryNotice, TextDelta
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.items import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage, text_parts
from tests.models.real_weights import WEIGHTS_FILE, needs_the_embedded_model
from tests.models.wire_contract import a_request, check_answer

pytestmark = [
    needs_the_embedded_model,
    pytest.mark.xdist_group("embedded_model"),  # it wants every processor, so never two of it at a time
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

PROGRAM = Path(__file__).with_name("third_party_server.py")
KEY = "canary-third-party-key"
PATIENCE_S = 120
WIRES: dict[WireName, type[HttpWire]] = {"chat": ChatWire, "responses": ResponsesWire, "messages": MessagesWire}
each_wire = pytest.mark.parametrize("name", WIRES)


@contextmanager
def serving(*keys: str) -> Iterator[str]:
    command = [sys.executable, str(PROGRAM), str(WEIGHTS_FILE), *keys]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **streams) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(KEY) as address:
        yield address


@asynccontextmanager
async def reaching(address: str, name: WireName, key: str | None = KEY) -> AsyncIterator[HttpWire]:
    provider = ModelProvider(base_url=f"{address}/v1", wire=name, env_key="LLAMA_KEY", request_max_retries=0)
    wire = WIRES[name]("llamacpp", "smollm2", provider, ProviderKeys({} if key is None else {"LLAMA_KEY": key}))
    yield wire
    await wire.close()


async def hear(
    wire: HttpWire, text: str, *, items: list[Item] | None = None, count: int | None = None
) -> list[AnswerPiece]:
    """All pieces of an answer, or the first so many."""
    request = a_request(text, items=items, dialect=wire.dialect, instructions="You are a helpful assistant. Be brief.")
    pieces: list[AnswerPiece] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            pieces.append(piece)
            if len(pieces) == count:
                break
    return pieces


def text_of(pieces: list[AnswerPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))


@each_wire
async def test_it_answers_in_deltas_and_counts_tokens(address: str, name: WireName) -> None:
    async with reaching(address, name) as wire:
        pieces = await hear(wire, "What is the capital of France?")
    check_answer(pieces)
    assert sum(isinstance(piece, TextDelta) for piece in pieces) > 3
    assert "Paris" in text_of(pieces)
    ending = pieces[-1]
    assert isinstance(ending, AnswerEnd)
    assert ending.stop_reason == "stop"
    assert ending.usage.input_tokens > 10
    assert ending.usage.output_tokens > 3


@each_wire
async def test_it_takes_a_history_with_tool_calls(address: str, name: WireName) -> None:
    history: list[Item] = [
        UserMessage(new_item_id(), text_parts("What time is it?")),
        ToolCall(new_item_id(), CallId("call_1"), "clock", "{}"),
        ToolOutput(new_item_id(), CallId("call_1"), text_parts("noon")),
        AssistantMessage(new_item_id(), text_parts("It is noon.")),
        UserMessage(new_item_id(), text_parts("What colour is the sky?")),
    ]
    async with reaching(address, name) as wire:
        pieces = await hear(wire, "", items=history)
    check_answer(pieces)
    assert isinstance(pieces[-1], AnswerEnd), pieces
    assert text_of(pieces)


@each_wire
@pytest.mark.parametrize("key", ["canary-wrong-key", None])
async def test_a_key_that_it_refuses_is_named_by_its_variable_alone(
    address: str, name: WireName, key: str | None
) -> None:
    """E6."""
    async with reaching(address, name, key) as wire:
        (failed,) = await hear(wire, "Hello")
    assert isinstance(failed, AnswerFailure)
    assert "LLAMA_KEY" in failed.message
    assert "canary" not in failed.message


@each_wire
async def test_a_history_that_does_not_fit_is_told_as_such(address: str, name: WireName) -> None:
    async with reaching(address, name) as wire:
        pieces = await hear(wire, "word " * 6000)
    assert not [piece for piece in pieces if isinstance(piece, RetryNotice)]
    assert isinstance(pieces[-1], AnswerFailure)
    assert pieces[-1].overflow, pieces[-1].message


@each_wire
async def test_hanging_up_frees_it_for_the_next(address: str, name: WireName) -> None:
    async with reaching(address, name) as wire:
        for _ in range(3):
            assert len(await hear(wire, "Write a very long story about a cat.", count=2)) == 2
        assert "Paris" in text_of(await hear(wire, "What is the capital of France?"))


def test_it_is_found_nearby_unless_it_wants_a_key(address: str) -> None:
    def nearby(address: str) -> dict[str, list[str]]:
        return discover_local_models({"llamacpp": ModelProvider(base_url=f"{address}/v1", wire="chat")})

    with serving() as open_to_all:
        assert len(nearby(open_to_all)["llamacpp"]) == 1
    assert "llamacpp" not in nearby(address)
