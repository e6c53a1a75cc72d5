"""A storm on the screen: 10,000 pieces of text in five seconds, in 200 conversations, while a person types.

From the key that is written to the terminal until the frame that shows it was written back; both ends read the same
clock of the machine. Where others use the processors, both ends ask for real-time priority; the row of the result says
whether they got it. The CPU time between the same two moments is printed too: no other program adds to it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.screen.pseudo_terminal import run_at_terminal
from tertulia.protocol.events import EVENT_TYPES, Event
from tertulia.protocol.ids import ConversationId, SessionId, TaskId

CONVERSATIONS = 200
DELTAS = 10_000
DELTAS_S = 2_000
KEYS_S = 50
_BURST = 50
_WARM = 0.2
"""The part of the pieces after which memory is measured first: what is made once is made."""
_PRIORITY = 1
_PIECE = "words that come "
_GO = "»"
"""A character of the pieces: the storm has begun."""
_FIRST_KEY = 0x100
"""Each key is another letter, which nothing else on the screen has: where it is written, that key was painted."""


def measure_storm(deltas: int = DELTAS) -> dict[str, float]:
    """Milliseconds from key to frame, memory, and whether the priority was had."""
    keys = [chr(_FIRST_KEY + number) for number in range(deltas * KEYS_S // DELTAS_S)]
    pressed: dict[str, float] = {}
    shown: dict[str, float] = {}
    real_time = ask_priority()

    def press(terminal: int) -> float | None:
        if len(pressed) == len(keys):
            return None
        if _GO in seen:
            key = keys[len(pressed)]
            pressed[key] = time.monotonic()
            os.write(terminal, key.encode())
        return time.monotonic() + 1 / KEYS_S

    def look(written: bytes) -> None:
        now = time.monotonic()
        seen.update(written.decode(errors="ignore"))
        for key in pressed.keys() & seen - shown.keys():
            shown[key] = now

    seen: set[str] = set()
    try:
        figures = run_at_terminal(["-m", "bench.screen.storm", str(deltas)], press=press, look=look)
    finally:
        drop_priority()
    waits = sorted(shown[key] - pressed[key] for key in shown)
    if len(waits) < len(keys) * 0.9:
        raise RuntimeError(f"of {len(keys)} keys only {len(waits)} were shown")
    return {
        "key_p99_ms": _p99(waits) * 1000,
        "key_p50_ms": waits[len(waits) // 2] * 1000,
        "key_cpu_p99_ms": _p99(sorted(figures["cpu"])) * 1000,
        "keys": len(waits),
        "real_time": float(real_time and figures["real_time"]),
        "grown_mib": figures["grown_mib"],
        "resident_mib": figures["resident_mib"],
        "deltas_s": figures["deltas_s"],
    }


def _p99(values: list[float]) -> float:
    return values[min(len(values) - 1, int(len(values) * 0.99))]


def ask_priority() -> bool:
    """Real-time priority for this process, where the system gives it."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
        return True
    return False


def drop_priority() -> None:
    """The usual priority again."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


# ── the process in the terminal ──────────────────────────────────────────────────────────────────────────────


def _event(seq: int | None, type: str, conversation: str, data: dict[str, Any]) -> Event:
    ids = ConversationId(conversation), TaskId(f"t-{conversation}"), None, None
    return Event(1, seq, "2026-01-01T00:00:00.000Z", type, SessionId("s"), "s", *ids, EVENT_TYPES[type](**data))


class StormPort:
    """A session of many conversations that all speak at once."""

    local = False

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas
        self._seq = 0
        self.come = 0
        """Pieces that were given out."""
        self.rate = 0.0
        self._lengths: dict[int, int] = {}
        self.grown_from = 0.0

    async def call(self, name: str, **params: Any) -> Any:
        """Nothing is answered but what the screen reads at its beginning."""
        answers: dict[str, Any] = {
            "session/info": {"policy": {"storage": "none"}, "model": "m/x", "session_id": "s"},
            "rights/explain": {"rights": []},
            "mcp/status": {"servers": []},
        }
        return answers.get(name, {})

    async def events(self, after: int) -> AsyncIterator[Event]:
        """The conversations, then the storm, without an end."""
        policy = {"protocol_version": "1", "version": "1", "model": "m/x", "policy": {}}
        yield self._durable("session_configured", "c0", {"root_conversation_id": "c0", **policy})
        for number in range(CONVERSATIONS):
            parent = None if not number else f"c{(number - 1) // 3}"
            title = None if not number else f"worker {number}"
            opened = {"parent_id": parent, "title": title, "model": "m/x", "backend": "native"}
            yield self._durable("conversation_opened", f"c{number}", opened)
            yield self._durable("task_started", f"c{number}", {"kind": "user", "input_preview": "work"})
        await asyncio.sleep(1.5)
        began = time.monotonic()
        while self.come < self._deltas:
            for _ in range(_BURST):
                yield self._piece()
            if self.come == int(self._deltas * _WARM):
                self.grown_from = resident_mib()
            due = began + self.come / DELTAS_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        self.rate = self.come / (time.monotonic() - began)
        await asyncio.Event().wait()

    def _piece(self) -> Event:
        # Every second one is for the conversation that is seen.
        number = 0 if self.come % 2 else self.come // 2 % CONVERSATIONS
        self.come += 1
        text = f"of an end.\n\n{_GO}" if not self.come % 9 else _PIECE
        offset = self._lengths.get(number, 0)
        self._lengths[number] = offset + len(text)
        data = {"text": text, "item_id": "a", "offset": offset}
        return _event(None, "agent_message_delta", f"c{number}", data)

    def _durable(self, type: str, conversation: str, data: dict[str, Any]) -> Event:
        self._seq += 1
        return _event(self._seq, type, conversation, data)

    async def close(self) -> None:
        """There is nothing to close."""


def resident_mib() -> float:
    """The memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def _measure(deltas: int, result: Path) -> None:
    from textual import events

    from tertulia.terminal.app import TerminalApp
    from tertulia.terminal.device.driver import TerminalDriver

    port = StormPort(deltas)
    begun: dict[str, float] = {}
    cpu: list[float] = []
    real_time = ask_priority()

    async def connect() -> Any:
        return port

    class MeasuredDriver(TerminalDriver):
        """Takes the CPU time from each key to the first frame that has it."""

        def write(self, data: str) -> None:
            super().write(data)
            cpu.extend(time.process_time() - begun.pop(key) for key in begun.keys() & set(data))

    class MeasuredApp(TerminalApp):
        """The whole screen."""

        async def on_event(self, event: events.Event) -> None:
            if isinstance(event, events.Key) and event.character is not None:
                begun.setdefault(event.character, time.process_time())
            await super().on_event(event)

        def on_mount(self) -> None:
            super().on_mount()
            self.set_interval(0.5, self._end)

        def _end(self) -> None:
            if not port.rate:
                return
            figures = {
                "cpu": cpu,
                "real_time": real_time,
                "grown_mib": resident_mib() - port.grown_from,
                "resident_mib": resident_mib(),
                "deltas_s": port.rate,
            }
            result.write_text(json.dumps(figures))
            self.exit()

    MeasuredApp(connect, driver=MeasuredDriver).run()


if __name__ == "__main__":
    _measure(int(sys.argv[1]), Path(sys.argv[2]))
