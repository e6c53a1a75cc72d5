"""`--debug` on the screen: what an engineer needs of a bug report, and nothing that was written (E1, E6)."""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.cli.output import debug_log
from tertulia.cli.output.debug_log import MAX_BYTES, MAX_DAYS, MAX_LOGS, DebugLog, remove_old_logs
from tertulia.errors import NotFoundError
from tertulia.events.debug_trace import traced
from tertulia.terminal.device.log_file import ScreenLog
from tests.terminal.conftest import MakeApp
from tests.terminal.screen import until, until_shown

CANARY = "canaryk2"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DebugLog]:
    """A log that is on."""
    begun = DebugLog(tmp_path / "logs")
    yield begun
    begun.close()


async def test_it_has_sizes_keys_operations_events_and_frames_and_no_text(make_app: MakeApp, log: DebugLog) -> None:
    call = {"name": "conv_create", "arguments": {"user_instruction": f"{CANARY} now", "title": CANARY}}
    failing = {"name": f"tool_{CANARY}", "arguments": {CANARY: CANARY}}
    app = make_app({"tool_calls": [call]}, {"tool_calls": [failing]}, f"{CANARY} done", f"{CANARY} all")
    async with app.run_test(size=(90, 28)) as pilot:
        await pilot.press(*f"{CANARY} please", "enter")
        await until_shown(app, f"{CANARY} all")
        await pilot.press("ctrl+g", *"/go nowhere", CANARY[0], "enter")
        await pilot.resize_terminal(70, 20)
        await pilot.press(*f"/why {CANARY}", "enter")
        await until(lambda: "operation rights/explain: ok" in log.path.read_text())
        app.scene.run(app.actions.port.call("conversation/context", conversation_id=CANARY))
        await until(lambda: "operation conversation/context: not_found" in log.path.read_text())
        await pilot.press("ctrl+c", "ctrl+c")
    text = log.path.read_text()
    assert re.search(r"operation conversation/message: ok, [\d.]+ ms", text)
    for line in ("key enter, focus Composer", "key ctrl+g", "size 90x28", "size 70x20", "characters were typed"):
        assert line in text
    numbers = [int(found) for found in re.findall(r"event (\d+) ", text)]
    assert numbers == sorted(set(numbers))
    for type in ("session_configured", "conversation_opened", "task_started", "tool_call_end", "task_complete"):
        assert re.search(rf"event \d+ {type}, ", text)
    encodings = (CANARY, base64.b64encode(CANARY.encode()).decode()[:8], CANARY.encode().hex())
    assert not [form for form in encodings if form in text]
    keys = [line.rpartition("key ")[2] for line in text.splitlines() if "screen_trace: key " in line]
    assert not [key for key in keys if len(key.partition(",")[0]) == 1]


async def test_frames_are_counted_by_the_second_with_the_slowest(make_app: MakeApp, log: DebugLog) -> None:
    app = make_app("Well.")
    async with app.run_test(size=(90, 28)) as pilot:
        await until(lambda: app.scene.seen is not None)
        app._trace._since -= 2.0
        await pilot.press("h", "i", "enter")
        await until_shown(app, "Well.")
        await until(lambda: re.search(r"\d+ frames, [\d.]+ a second, slowest [\d.]+ ms", log.path.read_text()))


async def test_an_operation_is_logged_with_its_code_and_never_its_message(log: DebugLog) -> None:
    async def refused() -> None:
        raise NotFoundError(CANARY)

    with pytest.raises(NotFoundError):
        await traced("session/info", refused())
    assert "operation session/info: not_found, " in log.path.read_text()
    assert CANARY not in log.path.read_text()


def test_versions_terminal_and_streams_come_first_and_other_variables_never(log: DebugLog) -> None:
    log.add_terminal({"TERM": "xterm", "TMUX": CANARY, "OPENAI_API_KEY": CANARY, "NO_COLOR": "1"})
    text = log.path.read_text()
    for part in (
        "tertulia 0.",
        "Python 3.",
        "textual ",
        "TERM=xterm",
        "TMUX is set",
        "NO_COLOR is set",
        "standard error",
    ):
        assert part in text
    assert CANARY not in text


def test_a_log_is_bounded_and_the_file_of_the_screen_has_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_log, "MAX_BYTES", 4_000)
    log = DebugLog(tmp_path / "logs")
    try:
        with ScreenLog() as screen:
            screen.write_to(tmp_path / "logs")
            for number in range(500):
                logging.getLogger("tertulia.test").debug("line %d", number)
            assert screen.path is not None
            assert screen.path.read_text() == ""
    finally:
        log.close()
    sizes = [path.stat().st_size for path in (tmp_path / "logs").glob("debug-*")]
    assert len(sizes) == 2
    assert all(0 < size <= 4_000 for size in sizes)
    assert "line 499" in log.path.read_text()
    assert MAX_BYTES <= 10_000_000


def test_old_logs_and_more_than_there_may_be_are_removed_when_one_begins(tmp_path: Path) -> None:
    now = 1_000_000_000.0
    for number in range(MAX_LOGS + 5):
        made = tmp_path / f"debug-{number:02}.log"
        made.touch()
        os.utime(made, (now - number, now - number))
    old = tmp_path / "debug-old.log.1"
    old.touch()
    os.utime(old, (now - (MAX_DAYS + 1) * 86_400,) * 2)
    (tmp_path / "terminal.log").touch()
    remove_old_logs(tmp_path, now)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [*(f"debug-{number:02}.log" for number in range(MAX_LOGS - 1)), "terminal.log"]
    os.utime(tmp_path / "debug-00.log", (now - (MAX_DAYS + 1) * 86_400,) * 2)
    remove_old_logs(tmp_path, now)
    assert not (tmp_path / "debug-00.log").exists()
