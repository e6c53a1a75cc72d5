"""With one slot everything is as it was before there were several: event for event."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from tests.scheduler.parallel.serial_worlds import SerialWorld, as_lines
from tests.thorough import sample

_RECORDED: dict[str, str] = msgspec.json.decode(Path(__file__).with_name("serial_events.json").read_bytes())


async def test_one_slot_gives_the_event_sequences_of_before() -> None:
    """Issue 20: recorded before the scheduler had slots, ids and times replaced."""
    assert len(_RECORDED) == 200
    others = {}
    for seed in sample(list(_RECORDED), 80):
        lines = as_lines(await SerialWorld(int(seed)).play())
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        if digest != _RECORDED[seed]:
            others[seed] = lines
    assert not others, f"{len(others)} worlds are another: {list(others)[:20]}"
