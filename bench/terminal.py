"""What the screen costs: all of it in a pseudo-terminal of 120x40, without a session, in CPU time of its own process.

An answer comes at 50 tokens a second, simulated as fast as frames allow: as many tokens as come in a twelfth of a
second, then a frame, then the next. Once in an empty conversation and once below 10,000 cells; both begin from a
snapshot, and the CPU until the first frame stands counts everything, imports included. Then the storm
(`screen/storm.py`), the first paint of the program and its rest (`screen/first_paint.py`).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.screen.first_paint import measure_first_paint, measure_idle
from bench.screen.pseudo_terminal import run_at_terminal
from bench.screen.storm import DELTAS, measure_storm
from tertulia.protocol.events import EVENT_TYPES, Event
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.view.board import Board
from tertulia.view.snapshot import read_snapshot, write_snapshot

Row = tuple[str, float, str, str]

CELLS = 10_000
TOKENS = 1_200
TOKENS_S = 50
FRAMES_S = 12
ROUNDS = 3
"""Of each measurement; the cheapest counts, because others use this machine too."""
WARM_TOKENS = 200
"""Before those that are measured: what is made once is made."""

ANSWER = """The total was wrong because `total()` added each price once, whatever its **count**.

## What I did

1. Rewrote `total` as one sum over price times count, and gave it a docstring that says the unit.
2. Added a test that fails without the change, and had all the others run again.

```python
def total(items):
    \"\"\"The price of everything in the basket, in cents.\"\"\"
    return sum(item.price * item.count for item in items)
```

| file | change |
|------|--------|
| app.py | 5 lines became 2 |
| tests/test_total.py | new, 5 lines |

Nothing else had to change: the callers give items with counts already, and the invoices are made from the same list.

"""


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target)."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for cells in (0, CELLS):
            snapshot = Path(folder) / f"{cells}.json"
            snapshot.write_bytes(write_snapshot(make_board(cells)))
            measured = [measure_in_terminal(snapshot, TOKENS) for _ in range(ROUNDS)]
            best = {name: min(one[name] for one in measured) for name in measured[0]}
            where = f"after {cells:,} cells"
            rows += [
                (f"a token, {where}", best["token_ms"], "ms CPU", "<= 0.8"),
                (f"to the terminal at 50 tokens/s, {where}", best["written_kib_s"], "KiB/s", "<= 8"),
                (f"rows painted a token, {where}", best["rows"], "rows", ""),
                (f"process until it stands, {where}", best["first_paint_s"], "s CPU", ""),
                (f"of it reading and painting, {where}", best["open_s"], "s CPU", "<= 0.5"),
                (f"resident at the end, {where}", best["resident_mib"], "MiB", "<= 70"),
            ]
    return [*rows, *storm_rows(), *first_paint_rows(), *ANCHORS]


def storm_rows(deltas: int = DELTAS) -> list[Row]:
    """Key to paint and memory while very much comes at once."""
    storm = measure_storm(deltas)
    how = "real-time priority" if storm["real_time"] else "no real-time priority: others add to it"
    return [
        (f"storm, key to paint, p99 ({how})", storm["key_p99_ms"], "ms", "<= 50"),
        ("storm, key to paint, median", storm["key_p50_ms"], "ms", ""),
        ("storm, key to paint, p99, CPU of the process", storm["key_cpu_p99_ms"], "ms CPU", "<= 50"),
        ("storm, keys that were measured", storm["keys"], "keys", ""),
        ("storm, pieces in 200 conversations", storm["deltas_s"], "/s", ""),
        ("storm, memory after 10,000 pieces less after 2,000", storm["grown_mib"], "MiB", "<= 4"),
        ("storm, resident at the end", storm["resident_mib"], "MiB", "<= 70"),
    ]


def first_paint_rows() -> list[Row]:
    """The first frame of the program, against an interpreter that does nothing."""
    paint = measure_first_paint()
    return [
        ("first paint of `tertulia`", paint["paint_s"], "s CPU", ""),
        ("first paint against `python -c pass`", paint["ratio"], "times", "<= 40"),
        ("modules of the session that it imported", paint["session_modules"], "modules", "<= 0"),
        ("idle, of a processor", measure_idle(), "%", "<= 0.2"),
    ]


ANCHORS: list[Row] = [
    ("anchor, Codex 0.166, a token (1.2 to 2.1)", 1.2, "ms CPU", ""),
    ("anchor, Codex 0.166, resident", 638, "MiB", ""),
    ("anchor, Claude Code 2.1.197, a token (2.0 to 3.3)", 2.0, "ms CPU", ""),
    ("anchor, Claude Code 2.1.197, resident", 276, "MiB", ""),
]
"""As they were last measured, at the same terminal; not measured here."""


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────


def _event(seq: int | None, type: str, data: dict[str, Any]) -> Event:
    return Event(
        epoch=1,
        seq=seq,
        ts=f"2026-01-01T00:00:00.{0 if seq is None else seq % 1000:03}Z",
        type=type,
        session_id=SessionId("s"),
        sub_id="s",
        conversation_id=ConversationId("root"),
        task_id=None,
        trace_id=None,
        span_id=None,
        data=EVENT_TYPES[type](**data),
    )


def make_board(cells: int) -> Board:
    """A conversation of so many cells: a message, an answer and a tool's call by turns."""
    board = Board()
    opened = {"parent_id": None, "title": None, "model": "m/x", "backend": "native"}
    events: list[tuple[str, dict[str, Any]]] = [("conversation_opened", opened)]
    for number in range(cells // 3):
        call = f"c{number}"
        output = f"{number}\n" * 9
        events += [
            ("user_message", {"item_id": f"u{number}", "text": f"question {number}"}),
            ("agent_message", {"text": ANSWER[:300], "item_id": f"a{number}"}),
            ("tool_call_begin", {"call_id": call, "name": "read_file", "arguments": {"path": "a.py"}}),
            (
                "tool_call_end",
                {
                    "call_id": call,
                    "name": "read_file",
                    "success": True,
                    "output": output,
                    "truncated": False,
                    "duration_ms": 9,
                },
            ),
        ]
    for seq, (type, data) in enumerate(events, 1):
        board.take(_event(seq, type, data))
    return board


# ── the process in the terminal ──────────────────────────────────────────────────────────────────────────────


def measure_in_terminal(snapshot: Path, tokens: int) -> dict[str, float]:
    """Run the measured process at a pseudo-terminal, and let so many tokens come."""
    return run_at_terminal(["-m", "bench.terminal", str(snapshot), str(tokens)])


def _measure(snapshot: Path, result: Path, tokens: int) -> None:
    """What runs in the terminal: show the snapshot, let an answer come, write down what it cost."""
    from tertulia.terminal.app import TerminalApp
    from tertulia.terminal.device.driver import TerminalDriver
    from tertulia.terminal.frames import Frame

    async def no_session() -> Any:
        await asyncio.Event().wait()

    class MeasuredApp(TerminalApp):
        """The whole screen, whose events are made here: there is no session behind it."""

        def on_mount(self) -> None:
            super().on_mount()
            self.call_after_refresh(self._open)

        def _open(self) -> None:
            self.began = time.process_time()
            self.scene.board = read_snapshot(snapshot.read_bytes())
            self.scene.see(ConversationId("root"))
            self.call_after_refresh(self._opened)

        def _opened(self) -> None:
            self.opened = time.process_time()
            self.run_worker(self._stream())

        async def _stream(self) -> None:
            await self._tokens(0, WARM_TOKENS)
            counted = _count(self)
            before = time.process_time()
            await self._tokens(WARM_TOKENS, tokens)
            spent = time.process_time() - before
            figures = {
                "token_ms": spent / tokens * 1000,
                "written_kib_s": counted["bytes"] / 1024 / (tokens / TOKENS_S),
                "rows": counted["rows"] / tokens,
                "first_paint_s": self.opened,
                "open_s": self.opened - self.began,
                "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
            result.write_text(json.dumps(figures))
            self.exit()

        async def _tokens(self, start: int, count: int) -> None:
            """Let so many tokens come, a frame's worth at a time."""
            text = ANSWER * 40
            for first in range(start, start + count, TOKENS_S // FRAMES_S):
                frame = Frame()
                for token in range(first, min(first + TOKENS_S // FRAMES_S, start + count)):
                    delta = {"text": text[token * 4 : token * 4 + 4], "item_id": "growing", "offset": token * 4}
                    frame.add(self.scene.board.take(_event(None, "agent_message_delta", delta)))
                self.scene.paint(frame)
                painted = asyncio.Event()
                self.call_after_refresh(painted.set)
                await painted.wait()

    MeasuredApp(no_session, driver=TerminalDriver).run()


def _count(app: Any) -> dict[str, int]:
    """Count what the driver writes, and the rows that the transcript has painted, from now on."""
    counted = {"bytes": 0, "rows": 0}
    transcript = app.scene.panes.transcript
    write, refresh = app._driver.write, transcript.refresh

    def counted_write(data: str) -> None:
        counted["bytes"] += len(data.encode())
        write(data)

    def counted_refresh(*regions: Any, **options: Any) -> Any:
        counted["rows"] += sum(region.height for region in regions)
        return refresh(*regions, **options)

    app._driver.write, transcript.refresh = counted_write, counted_refresh
    return counted


if __name__ == "__main__":
    _measure(Path(sys.argv[1]), Path(sys.argv[3]), int(sys.argv[2]))
