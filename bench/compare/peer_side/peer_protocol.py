"""The side of a peer in `tertulia bench compare`: one request on standard input, one report on standard output.

Runs in the peer's own environment, so it imports nothing but the standard library. A program of a peer gives `serve` a
class below `Peer`; the work itself, what is measured and how is here, once for all peers. A process does one work.

An exception is not caught: the process ends with it, and the referee shows its last line as the reason.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from sitecustomize import tried

Kind = Literal["plain", "tool", "mcp", "delegate"]
Figures = dict[str, float]

INSTRUCTIONS = "You are a helpful assistant. Answer in one or two sentences."
CHILD_INSTRUCTIONS = "You do one small piece of work and say what you found."
WORK = "Look at one small piece of the work, and say in a few words what you found there."
BIG_OUTPUT_BYTES = 10_000_000
ANSWER_START = "It is as"
PADDING = "The question is as long as a person would write it, with some context around it that is not needed. " * 3


class NoSuchFeatureError(Exception):
    """The peer has nothing that does this work; the text says what was looked for."""


class Peer:
    """A program of a peer: how it opens a conversation and has one message answered."""

    delegate_call: ClassVar[tuple[str, dict[str, Any]]] = ("ask_child", {"input": WORK})
    """The tool by which this peer asks another agent, and its arguments."""
    tool_call: ClassVar[tuple[str, dict[str, Any]]] = ("big_output", {})
    mcp_call: ClassVar[tuple[str, dict[str, Any]]] = ("echo", {"text": "hello"})

    def __init__(self, url: str, mcp_command: list[str], variant: str) -> None:
        self.url = url
        """Where the provider is, without a path."""
        self.mcp_command = mcp_command
        """What starts the server of W3; the last argument is a word that no other process has."""
        self.process = os.getpid()
        """Which process is measured: this one, unless another program does the work."""
        self.variant = variant
        """Which of the forms of this peer it is, where a program has several."""

    async def start(self) -> None:
        """Build what conversations share: client, model, agent."""

    async def conversation(self, kind: Kind) -> Any:
        """A new conversation with a history of its own; `NoSuchFeatureError` where the peer has no such kind."""
        raise NotImplementedError

    async def turn(self, conversation: Any, text: str) -> str:
        """The answer to one message; the history keeps both."""
        raise NotImplementedError

    async def cancel(self, conversation: Any, turn: asyncio.Task[str]) -> None:
        """Stop a turn that is running, in the way the peer documents."""
        turn.cancel()

    async def stop(self) -> None:
        """Let go of what `start` built."""

    def cpu_s(self) -> float:
        """CPU seconds of the peer so far."""
        # The CPU clock of a process, as clock_getcpuclockid(3) has it.
        return time.clock_gettime((~self.process << 3) | 2)

    def resident_bytes(self) -> int:
        """Memory that the peer holds now."""
        return _status_bytes("VmRSS", self.process)

    def peak_bytes(self) -> int:
        """The most that the peer held since `forget_peak`."""
        return _status_bytes("VmHWM", self.process)

    def forget_peak(self) -> None:
        """Let `peak_bytes` begin anew."""
        Path(f"/proc/{self.process}/clear_refs").write_text("5")


def big_output() -> str:
    """Ten megabytes of text, as a careless tool would return them."""
    return "0123456789abcdef " * (BIG_OUTPUT_BYTES // 17)


def serve(kind: type[Peer]) -> None:
    """Read the request, do the work, print the report."""
    # Whatever a library prints goes to standard error: standard output belongs to the protocol.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    report = asyncio.run(_do(kind, request))
    json.dump({**report, "refused": sorted(tried)}, answers)
    answers.close()
    sys.stderr.flush()
    # Threads of a library that never end must not hold the referee up: everything has been said.
    os._exit(0)


async def _do(kind: type[Peer], request: dict[str, Any]) -> dict[str, Any]:
    peer = kind(request["url"], request["mcp_command"], request["variant"])
    await peer.start()
    try:
        figures = await WORKS[request["work"]](peer, request["sizes"])
    except NoSuchFeatureError as missing:
        return {"missing": str(missing)}
    await peer.stop()
    return {"figures": figures}


# ---- the works


async def _turns(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """CPU of a turn, as the history grows: the mean of the last turns before each mark."""
    conversation = await peer.conversation("plain")
    marks, window, budget_s = sizes["marks"], sizes["window"], sizes["budget_s"]
    figures: Figures = {}
    begun = time.monotonic()
    done = 0
    for mark in marks:
        for _ in range(mark - window - done):
            _check(await peer.turn(conversation, question(done)))
            done += 1
            if time.monotonic() - begun > budget_s:
                return {**figures, "stopped at turn": done}
        gc.collect()
        before = peer.cpu_s()
        for _ in range(window):
            _check(await peer.turn(conversation, question(done)))
            done += 1
        figures[f"turn {mark:,}"] = (peer.cpu_s() - before) / window * 1e3
    return figures


async def _conversations(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """Many conversations with one turn in each of them, all held open."""
    held = [await peer.conversation("plain")]
    _check(await peer.turn(held[0], question(0)))
    gc.collect()
    memory, cpu = peer.resident_bytes(), peer.cpu_s()
    for number in range(sizes["count"]):
        conversation = await peer.conversation("plain")
        _check(await peer.turn(conversation, question(number)))
        held.append(conversation)
    cpu = peer.cpu_s() - cpu
    gc.collect()
    memory = peer.resident_bytes() - memory
    return {"CPU": cpu / sizes["count"] * 1e3, "memory": max(memory, 0) / sizes["count"] / 1024}


async def _mcp(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """A call of an MCP tool a turn, and how many server processes so many conversations have."""
    text = call_text(*peer.mcp_call)
    first = await peer.conversation("mcp")
    _check(await peer.turn(first, text))
    await _check_output(peer, peer.mcp_call[1]["text"])
    figures: Figures = {"CPU": await _cpu_ms(peer, lambda: peer.turn(first, text), sizes["calls"])}
    held = [first]
    for count in sizes["counts"]:
        while len(held) < count:
            conversation = await peer.conversation("mcp")
            _check(await peer.turn(conversation, text))
            held.append(conversation)
        figures[f"servers for {count}"] = _processes_with(peer.mcp_command[-1])
    return figures


async def _delegation(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """One agent asks another and goes on with the answer: three requests."""
    text = call_text(*peer.delegate_call)

    async def once() -> str:
        return await peer.turn(await peer.conversation("delegate"), text)

    _check(await once())
    await _check_output(peer, ANSWER_START)
    return {"CPU": await _cpu_ms(peer, once, sizes["times"])}


async def _output(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """A tool returns ten megabytes."""
    text = call_text(*peer.tool_call)
    _check(await peer.turn(await peer.conversation("plain"), question(0)))
    gc.collect()
    peer.forget_peak()
    memory = peer.resident_bytes()

    async def once() -> str:
        return await peer.turn(await peer.conversation("tool"), text)

    cpu = await _cpu_ms(peer, once, sizes["times"])
    await _check_output(peer, "0123456789abcdef")
    peak = (peer.peak_bytes() - memory) / 2**20
    sent = float(await _control(peer.url, "last_size"))
    return {"CPU": cpu, "peak memory": max(peak, 0), "sent to the model": sent / 2**20}


async def _cancels(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """From the wish to stop until the turn is over, while the provider is silent."""
    took: list[float] = []
    for _ in range(sizes["times"] + 1):
        hanging = await _control(peer.url, "hanging")
        conversation = await peer.conversation("plain")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(peer.turn(conversation, "@hang"))
            arrived = group.create_task(_control(peer.url, f"hanging?after={hanging}"))
            await asyncio.wait([turn, arrived], return_when=asyncio.FIRST_COMPLETED)
            if not arrived.done():
                raise AssertionError("the turn was over before the provider had its request")
            begun = time.perf_counter()
            await peer.cancel(conversation, turn)
            await asyncio.wait([turn])
            took.append((time.perf_counter() - begun) * 1e3)
    return {"latency": statistics.median(took[1:])}


async def _children(peer: Peer, sizes: dict[str, Any]) -> Figures:
    """One agent asks many at once and goes on when all have answered."""
    text = call_text(*peer.delegate_call, times=sizes["children"])
    _check(await peer.turn(await peer.conversation("delegate"), call_text(*peer.delegate_call)))
    conversation = await peer.conversation("delegate")
    before = int(await _control(peer.url, "answered"))
    begun = time.monotonic()
    cpu = await _cpu_ms(peer, lambda: peer.turn(conversation, text), 1)
    clock = (time.monotonic() - begun) * 1e3
    await _check_output(peer, ANSWER_START)
    requests = int(await _control(peer.url, "answered")) - before
    if requests != sizes["children"] + 2:
        raise AssertionError(f"{requests} requests were made for {sizes['children']} children")
    return {"CPU a child": cpu / sizes["children"], "whole, by the clock": clock}


WORKS: dict[str, Callable[[Peer, dict[str, Any]], Awaitable[Figures]]] = {
    "W1": _turns,
    "W2": _conversations,
    "W3": _mcp,
    "W5": _delegation,
    "W6": _output,
    "W7": _cancels,
    "W8": _children,
}


# ---- what the works share


def question(number: int) -> str:
    """A message that has its own number and always the same length."""
    return f"Question {number:06}. {PADDING}"


def call_text(tool: str, arguments: dict[str, Any], times: int = 1) -> str:
    """A message that makes the provider answer with calls of this tool."""
    return "@call " + json.dumps({"tool": tool, "arguments": arguments, "times": times})


def _check(answer: str) -> None:
    if not answer.startswith(ANSWER_START):
        raise AssertionError(f"the answer is not the provider's: {answer[:200]!r}")


async def _check_output(peer: Peer, text: str) -> None:
    """The model was sent what the tool returned, and not that it failed."""
    output = await _control(peer.url, "last_output")
    if text not in output:
        raise AssertionError(f"the tool did not answer: {output[:200]}")


async def _cpu_ms(peer: Peer, once: Callable[[], Awaitable[str]], times: int) -> float:
    gc.collect()
    before = peer.cpu_s()
    for _ in range(times):
        _check(await once())
    return (peer.cpu_s() - before) / times * 1e3


async def _control(url: str, name: str) -> str:
    """Ask the provider for one of its counts."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /control/%b HTTP/1.1\r\nConnection: close\r\n\r\n" % name.encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


def _status_bytes(field: str, process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/{process}/status has no {field}")


def _processes_with(word: str) -> int:
    """How many processes have this word as their last argument."""
    ending = b"\0" + word.encode() + b"\0"
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += (entry / "cmdline").read_bytes().endswith(ending)
            except OSError:
                continue
    return count
