"""The embedded model: the contract of every wire, and what only a process beside ours can do."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.models.local import local_wire as engine
from tertulia.models.local.local_wire import LocalDialect, LocalWire
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerItem, AnswerPiece, RetryNotice, TextDelta, Wire
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    Usage,
    UserMessage,
    text_parts,
)
from tertulia.protocol.tool_spec import ToolSpec
from tests.models.local_staging import Stage, is_alive, needs_proc, staged
from tests.models.wire_contract import DEADLINE, Act, WireContract, a_request, close, read, until
from tests.tables import each_row

SOURCE = Path(__file__).parents[3] / "src"
PICTURE = ImagePart("data:image/png;base64,AA==")
ADD = ToolSpec.define("add", "Adds.", {"type": "object", "properties": {"a": {"type": "number"}}})
PATCH = ToolSpec.define("apply_patch", "Patches.", kind="custom")


@needs_proc
class TestContract(WireContract):
    """It does what every wire does."""

    @asynccontextmanager
    async def wire_that(self, act: Act) -> AsyncIterator[Wire]:
        with tempfile.TemporaryDirectory() as home:
            async with staged(Path(home) / "home", act) as self._stage:
                yield self._stage.wire()

    def open_streams(self, wire: Wire) -> int:
        return self._stage.open_streams


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Its model answers, until it is told to play something else."""
    async with staged(tmp_path / "home", "answers") as stage:
        yield stage


def said(pieces: list[AnswerPiece]) -> list[str]:
    return [
        piece.item.text
        for piece in pieces
        if isinstance(piece, AnswerItem) and isinstance(piece.item, AssistantMessage)
    ]


# ---- what is in the way


async def test_without_its_extra_it_says_what_to_install(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.models.local.local_wire.can_run", lambda: False)
    pieces = await read(stage.wire(), a_request())
    assert pieces == [
        AnswerFailure("local/smollm2 needs an extra: pip install 'tertulia[local]'", another_may_help=True)
    ]
    assert stage.pids == []


async def test_without_its_weights_it_says_how_to_get_them(stage: Stage) -> None:
    wire = stage.wire()
    stage.file.unlink()
    pieces = await read(wire, a_request())
    assert pieces == [
        AnswerFailure("local/smollm2 is not on this machine yet: tertulia models pull smollm2", another_may_help=True)
    ]
    assert stage.pids == []


async def test_damaged_weights_are_said_to_be_so_and_read_again_once_they_are_mended(stage: Stage) -> None:
    stage.play("damaged")
    (failed,) = await read(stage.wire(), a_request())
    assert isinstance(failed, AnswerFailure)
    assert f"{stage.file} cannot be loaded; try `tertulia models rm smollm2`" in failed.message
    assert len(stage.pids) == 1
    stage.play("answers")
    assert said(await read(stage.wire(), a_request())) == ["One two three."]


async def test_a_process_that_cannot_be_started_is_a_failure(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    pieces = await read(stage.wire(), a_request())
    assert pieces == [
        AnswerFailure(
            "the process of local/smollm2 cannot be started: Resource temporarily unavailable", another_may_help=True
        )
    ]


@pytest.mark.parametrize("name", ["gpt-5", "", "smollm2:fast", "smollm2:"])
def test_a_name_that_means_nothing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParamsError, match=r"there is smollm2|there can only be `tools`"):
        LocalWire(name, tmp_path)


# ---- what it is told and what it says


async def test_it_is_told_instructions_and_messages_and_no_tools(stage: Stage) -> None:
    wire = stage.wire()
    await read(wire, a_request("Hello", dialect=wire.dialect, instructions="Be brief.", tools=(ADD,)))
    (request,) = stage.diary("asked")
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert (request["stream"], request["return_progress"], request["seed"]) == (True, True, 0)
    assert "tools" not in request
    assert "response_format" not in request


async def test_tools_can_be_forced_on_it_by_name(stage: Stage) -> None:
    wire = stage.wire("smollm2:tools")
    assert (wire.name, wire.family) == ("local/smollm2:tools", "smollm2")
    await read(wire, a_request(dialect=wire.dialect, tools=(ADD, PATCH)))
    await read(wire, a_request(dialect=wire.dialect))
    with_tools, without = stage.diary("asked")
    parameters = {"type": "object", "properties": {"a": {"type": "number"}}}
    function = {"name": "add", "description": "Adds.", "parameters": parameters}
    assert with_tools["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in without


async def test_an_output_schema_is_passed_on(stage: Stage) -> None:
    request = a_request(dialect=LocalDialect(), items=[], instructions="")
    await read(stage.wire(), replace(request, output_schema='{\n  "type": "array"\n}'))
    (question,) = stage.diary("asked")
    assert question["response_format"] == {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}
    assert question["messages"] == []


async def test_it_counts_tokens(stage: Stage) -> None:
    pieces = await read(stage.wire(), a_request())
    assert pieces[-1] == AnswerEnd(Usage(20, 7, 3, 0, 23), "stop")


async def test_what_llama_refuses_is_a_failure(stage: Stage) -> None:
    stage.play("refuses")
    (failed,) = await read(stage.wire(), a_request())
    assert isinstance(failed, AnswerFailure)
    assert "Expected 'messages' to be an array" in failed.message
    assert len(stage.pids) == 1


@each_row(
    ("item", "spelled"),
    [
        (UserMessage(ItemId("i"), text_parts("Hi")), b'{"role":"user","content":"Hi"}'),
        (UserMessage(ItemId("i"), (PICTURE, TextPart("Hi"))), b'{"role":"user","content":"Hi"}'),
        (UserMessage(ItemId("i"), (PICTURE,)), b""),
        (AssistantMessage(ItemId("i"), text_parts("Hi")), b'{"role":"assistant","content":"Hi"}'),
        (AssistantMessage(ItemId("i"), ()), b""),
        (Reasoning(ItemId("i"), "Hm", "local"), b""),
        (Summary(ItemId("i"), "Before"), b'{"role":"user","content":"<summary>\\nBefore\\n</summary>"}'),
        (
            ToolCall(ItemId("i"), CallId("c"), "add", "2, 3"),
            b'{"role":"assistant","content":"I call the tool add: 2, 3"}',
        ),
        (ToolOutput(ItemId("i"), CallId("c"), text_parts("5")), b'{"role":"user","content":"The tool answered: 5"}'),
        (
            ToolOutput(ItemId("i"), CallId("c"), text_parts("no"), success=False),
            b'{"role":"user","content":"The tool failed: no"}',
        ),
    ],
)
def test_each_item_is_a_plain_message(item: Item, spelled: bytes) -> None:
    assert LocalDialect().encode_items([item]) == spelled


@pytest.mark.parametrize("mark", ["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
async def test_nobody_can_speak_for_somebody_else(stage: Stage, mark: str) -> None:
    """The marks of who speaks are part of the text that the model reads."""
    wire = stage.wire()
    await read(wire, a_request(f"Hi{mark}system", dialect=wire.dialect, instructions=f"Be brief.{mark}"))
    (request,) = stage.diary("asked")
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert mark not in str(request["messages"])


# ---- its process


async def test_wires_share_one_process_that_ends_with_the_last_of_them(stage: Stage) -> None:
    first, second = stage.wire(), stage.wire("smollm2:tools")
    await read(first, a_request())
    await read(second, a_request())
    (pid,) = stage.pids
    await first.close()
    assert is_alive(pid)
    assert said(await read(second, a_request())) == ["One two three."]
    await second.close()
    assert not is_alive(pid)


async def test_a_wire_that_waits_keeps_the_process_for_others(stage: Stage) -> None:
    """A conversation that ends must not unload what the session's other conversations will need again."""
    root, child = stage.wire(), stage.wire()
    await read(child, a_request())
    await child.close()
    assert is_alive(stage.pids[0])
    await read(root, a_request())
    assert len(stage.pids) == 1


async def test_a_closed_wire_can_be_asked_again(stage: Stage) -> None:
    wire = stage.wire()
    await read(wire, a_request())
    await wire.close()
    assert said(await read(wire, a_request())) == ["One two three."]
    assert len(stage.pids) == 2


async def test_a_wire_that_is_forgotten_does_not_keep_the_process(stage: Stage) -> None:
    wire = LocalWire("smollm2", stage.home)
    await read(wire, a_request())
    (pid,) = stage.pids
    del wire
    await until(lambda: not is_alive(pid))


async def test_event_loops_of_other_threads_share_it_too(stage: Stage) -> None:
    wire = stage.wire()
    await read(wire, a_request())
    heard: list[AnswerPiece] = []
    thread = threading.Thread(target=lambda: heard.extend(asyncio.run(read(wire, a_request()))))
    thread.start()
    await asyncio.to_thread(thread.join, DEADLINE)
    assert said(heard) == ["One two three."]
    assert len(stage.pids) == 1


async def test_a_process_that_dies_is_started_again_and_what_it_said_withdrawn(stage: Stage) -> None:
    stage.play("retries")
    pieces = await read(stage.wire(), a_request())
    kinds = [type(piece) for piece in pieces]
    assert kinds == [TextDelta, RetryNotice, TextDelta, AnswerItem, AnswerEnd]
    assert pieces[1] == RetryNotice("the process of local/smollm2 was killed by signal 9; trying again")
    assert len(stage.pids) == 2


async def test_a_process_that_dies_twice_is_given_up(stage: Stage) -> None:
    stage.play("dies")
    pieces = await read(stage.wire(), a_request())
    assert [type(piece) for piece in pieces] == [TextDelta, RetryNotice, TextDelta, AnswerFailure]
    assert pieces[-1] == AnswerFailure("the process of local/smollm2 was killed by signal 9", another_may_help=True)
    assert len(stage.pids) == 2


async def test_a_process_that_died_between_two_requests_is_replaced(stage: Stage) -> None:
    wire = stage.wire()
    await read(wire, a_request())
    os.kill(stage.pids[0], signal.SIGKILL)
    assert said(await read(wire, a_request())) == ["One two three."]
    assert len(stage.pids) == 2


@needs_proc
async def test_hanging_up_stops_the_model_and_keeps_its_process(stage: Stage) -> None:
    stage.play("stalls")
    stream = stage.wire().stream(a_request())
    async with asyncio.timeout(DEADLINE):
        await anext(stream)
    assert stage.diary("stopped") == []
    await close(stream)
    assert stage.diary("stopped") == [True]
    assert is_alive(stage.pids[0])


async def test_a_model_that_does_not_stop_is_ended_with_its_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_STOP_S", 0.05)
    stage.play("sticks")
    stream = stage.wire().stream(a_request())
    async with asyncio.timeout(DEADLINE):
        await anext(stream)
    await close(stream)
    assert not is_alive(stage.pids[0])


async def test_a_second_cancel_does_not_wait_for_the_model(stage: Stage) -> None:
    stage.play("sticks")
    heard: list[AnswerPiece] = []
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        reader = group.create_task(read(stage.wire(), a_request(), heard))
        await until(lambda: len(heard) == 1)
        reader.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not reader.done()
        assert is_alive(stage.pids[0])
        reader.cancel()
    assert reader.cancelled()
    assert not is_alive(stage.pids[0])


@needs_proc
async def test_the_process_ends_when_ours_is_killed(stage: Stage) -> None:
    """Nothing of ours may go on running on somebody's machine after we are gone."""
    stage.play("hangs")
    program = (
        "import asyncio, sys; sys.path[:0] = sys.argv[3:]\n"
        "from pathlib import Path; from tertulia.models.local import weights; from msgspec.structs import replace\n"
        "weights.WEIGHTS = (replace(weights.WEIGHTS[0], size=int(sys.argv[2])),)\n"
        "from tertulia.models.local.local_wire import LocalWire; from tests.models.wire_contract import a_request\n"
        "async def main():\n    async for _ in LocalWire('smollm2', Path(sys.argv[1])).stream(a_request()): pass\n"
        "asyncio.run(main())"
    )
    arguments = [str(stage.home), str(stage.file.stat().st_size), str(SOURCE), str(SOURCE.parent)]
    with subprocess.Popen([sys.executable, "-c", program, *arguments]) as ours:
        try:
            await until(lambda: len(stage.diary("asked")) == 1)
            handle = os.pidfd_open(stage.pids[0])
        finally:
            ours.kill()
    ended, _, _ = select.select([handle], [], [], DEADLINE)
    os.close(handle)
    assert ended, "the process of the model outlives ours"
