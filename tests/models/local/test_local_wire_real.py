"""The embedded model itself, with real weights; skipped, and listed with the reason, where it is not installed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

import tertulia
from tertulia.models.local.local_wire import LocalWire
from tertulia.models.local.weights import WEIGHTS
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerPiece, TextDelta
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, UserMessage, text_parts
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.models.real_weights import HOME, WEIGHTS_FILE, needs_the_embedded_model
from tests.models.wire_contract import a_request, check_answer

pytestmark = [
    needs_the_embedded_model,
    pytest.mark.xdist_group("embedded_model"),  # it wants every processor, so never two of it at a time
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120
"""The machine may be slow, or busy."""


@pytest.fixture
async def wire() -> AsyncIterator[LocalWire]:
    wire = LocalWire("smollm2", HOME)
    yield wire
    await wire.close()


async def hear(
    wire: LocalWire, text: str, *, count: int | None = None, items: list[Item] | None = None
) -> list[AnswerPiece]:
    """All pieces of an answer, or the first so many."""
    instructions = "You are a helpful assistant. Be brief."
    request = a_request(text, items=items, dialect=wire.dialect, instructions=instructions)
    pieces: list[AnswerPiece] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            pieces.append(piece)
            if len(pieces) == count:
                break
    return pieces


def text_of(pieces: list[AnswerPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))


def test_the_weights_are_those_that_the_code_knows() -> None:
    with open(WEIGHTS_FILE, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS[0].sha256


def test_the_window_is_the_models_own() -> None:
    with open(WEIGHTS_FILE, "rb") as file:
        head = file.read(1 << 16)
    key = b"llama.context_length"
    kind, window = struct.unpack_from("<II", head, head.index(key) + len(key))
    assert (kind, window) == (4, WEIGHTS[0].context_window)


async def test_it_answers_a_real_message(wire: LocalWire) -> None:
    pieces = await hear(wire, "What is the capital of France?")
    check_answer(pieces)
    assert "Paris" in text_of(pieces)
    ending = pieces[-1]
    assert isinstance(ending, AnswerEnd)
    assert ending.stop_reason == "stop"
    assert ending.usage.output_tokens > 3


async def test_a_question_has_the_same_answer_twice(wire: LocalWire) -> None:
    first, second = await hear(wire, "Name three animals."), await hear(wire, "Name three animals.")
    assert text_of(first) == text_of(second) != ""


async def test_what_was_read_is_not_read_again(wire: LocalWire) -> None:
    question = UserMessage(new_item_id(), text_parts("The sea is wide. " * 20 + "What is the capital of France?"))
    first = await hear(wire, "", items=[question])
    answer = AssistantMessage(new_item_id(), text_parts(text_of(first)))
    again = UserMessage(new_item_id(), text_parts("What colour is the sky?"))
    second = await hear(wire, "", items=[question, answer, again])
    ending = second[-1]
    assert isinstance(ending, AnswerEnd)
    assert ending.usage.cached_input_tokens > 0.7 * ending.usage.input_tokens


async def test_leaving_stops_it_and_the_next_is_answered(wire: LocalWire) -> None:
    pieces = await hear(wire, "Write a very long story about a cat.", count=3)
    assert len(pieces) == 3
    assert "Paris" in text_of(await hear(wire, "What is the capital of France?"))


async def test_it_can_be_stopped_while_it_reads(wire: LocalWire) -> None:
    await hear(wire, "Hello", count=1)
    reading = asyncio.get_running_loop().create_task(hear(wire, "Once upon a time. " * 1500))
    await asyncio.wait([reading], timeout=0.5)
    assert not reading.done()
    reading.cancel()
    async with asyncio.timeout(HANG_S):
        await asyncio.wait([reading])
    assert reading.cancelled()
    assert "Paris" in text_of(await hear(wire, "What is the capital of France?"))


async def test_a_history_that_does_not_fit_overflows(wire: LocalWire) -> None:
    (failed,) = await hear(wire, "word " * 20_000)
    assert isinstance(failed, AnswerFailure)
    assert failed.overflow


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="looks into /proc")
async def test_its_process_opens_no_port(wire: LocalWire) -> None:
    await hear(wire, "Hello", count=1)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    (pid,) = [pid for pid in children if b"llama_program.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    links = [os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {link[8:-1] for link in links if link.startswith("socket:")}
    assert sockets
    tables = [Path(f"/proc/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6", "udp", "udp6")]
    assert not sockets & {line.split()[9] for lines in tables for line in lines}


async def test_a_conversation_of_a_session_is_answered_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(HOME))
    async with Session.start(Settings(model="local/smollm2")) as session:
        conversation = await session.open(base_instructions="You are a helpful assistant. Be brief.")
        async with asyncio.timeout(PATIENCE_S):
            reply = await conversation.message("What is the capital of France?")
    assert reply.status == "completed"
    assert reply.text
    assert reply.usage.output_tokens > 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(HOME / "user"),
        "TERTULIA_HOME": str(HOME),
        "LANG": "C.UTF-8",
    }
    environment["PYTHONPATH"] = str(Path(tertulia.__file__).parents[1])
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_trial_passes_and_says_that_no_tools_are_offered() -> None:
    ran = run("-m", "tertulia", "models", "test", "local/smollm2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "turn       ok" in ran.stdout
    assert "tool call  not tried" in ran.stdout


def test_the_example_conversations_to_it() -> None:
    ran = run(str(ROOT / "examples" / "05_local_model.py"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "not here" not in ran.stdout
