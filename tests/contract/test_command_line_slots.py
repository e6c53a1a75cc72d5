"""Slots at a shell: `exec --slots`, the config file, and what makes no sense; `max_running_tasks` of a server."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import NEVER_MS, Message, serving, write_script
from tests.contract.test_command_line import Ran, run

THREE = ("first", "second", "third")
ASKS: Message = {
    "match": {"contains": "ask"},
    "tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": name}} for name in THREE],
}
ANSWERS = [{"match": {"contains": name}, "text": f"{name} says", "delay_ms": 200} for name in THREE]


def most_at_once(events: list[dict[str, Any]]) -> int:
    """How many tasks ran at the same time."""
    changes = {"task_started": 1, "task_complete": -1, "turn_aborted": -1, "turn.started": 1, "turn.completed": -1}
    return max(accumulate(changes.get(event["type"], 0) for event in events))


def colleagues(ran: Ran) -> list[dict[str, Any]]:
    """What `exec --json` shows of the conversations that the first one asked."""
    first = next(line["conversation_id"] for line in ran.lines if line["type"] == "turn.started")
    return [line for line in ran.lines if line.get("conversation_id", first) != first]


def ask_three(folder: Path, *flags: str, **env: str) -> Ran:
    model = write_script(folder, [ASKS, *ANSWERS, "All three answered."])
    return run(folder, "exec", "--json", "-m", model, *flags, "ask them", **env)


@pytest.mark.parametrize(
    ("flags", "slots"), [([], 1), (["--slots", "3"], 3), (["--slots", "2"], 2), (["-c", "slots=3"], 3)]
)
def test_exec_runs_so_many_tasks_at_once_as_there_are_slots(flags: list[str], slots: int, tmp_path: Path) -> None:
    """Issue 20, 9."""
    ran = ask_three(tmp_path, *flags)
    assert ran.code == 0
    assert most_at_once(colleagues(ran)) == slots
    assert "All three answered." in ran.out


def test_slots_stand_in_the_config_file_and_a_flag_overrides_them(tmp_path: Path) -> None:
    config = tmp_path / "xdg" / "tertulia"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("slots = 3\n")
    for flags, slots in (((), 3), (("--slots", "1"), 1)):
        ran = ask_three(tmp_path, *flags, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
        assert (ran.code, most_at_once(colleagues(ran))) == (0, slots)


@pytest.mark.parametrize("slots", ["0", "-1", "1001", "1e9", "two", "1.5", "true", ""])
def test_slots_that_make_no_sense_are_refused_before_anything_starts(slots: str, tmp_path: Path) -> None:
    for flags in (("--slots", slots), ("-c", f"slots={slots}")):
        ran = ask_three(tmp_path, *flags)
        assert (ran.code, ran.out) == (2, ""), (flags, ran.out, ran.err)
        assert "slots" in ran.err


@pytest.mark.parametrize("tasks", ["0", "-1", "many", "true"])
def test_running_tasks_of_a_server_that_make_no_sense_are_refused(tasks: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "app-server", "-c", f"max_running_tasks={tasks}")
    assert (ran.code, ran.out) == (2, "")
    assert "max_running_tasks" in ran.err


async def test_a_server_runs_no_more_tasks_than_it_may_over_all_its_sessions(tmp_path: Path) -> None:
    """Issue 20, 1: each session has slots enough; the server has two."""
    flags = ("--slots", "4", "-c", "max_running_tasks=2")
    async with serving(tmp_path, [{"text": "ok", "delay_ms": 100} for _ in range(6)], *flags) as server:
        sessions = [(await server.call("session/start"))["session_id"] for _ in range(2)]
        answers = []
        for session in sessions:
            for _ in range(3):
                opened = await server.call("conversation/open", session_id=session)
                where = {"session_id": session, "conversation_id": opened["conversation_id"]}
                answers.append(await server.ask("conversation/message", text="go", **where))
        assert [(await server.answer(request))["status"] for request in answers] == ["completed"] * 6
        assert most_at_once(server.events) == 2


async def test_a_session_that_floods_the_server_delays_the_first_task_of_another_by_one_task(tmp_path: Path) -> None:
    """Issue 20, proof: starvation."""
    flags = ("--slots", "8", "-c", "max_running_tasks=1")
    script = [{"match": {"contains": "hold"}, "text": "never", "delay_ms": NEVER_MS}, *["ok"] * 8]
    async with serving(tmp_path, script, *flags) as server:
        loud, quiet = [(await server.call("session/start"))["session_id"] for _ in range(2)]
        flood = []
        for number in range(8):
            opened = await server.call("conversation/open", session_id=loud)
            where = {"session_id": loud, "conversation_id": opened["conversation_id"]}
            text = "go" if number else "hold"
            flood.append((await server.call("conversation/message", text=text, detach=True, **where))["task_id"])
        request_id = await server.ask("conversation/message", session_id=quiet, conversation_id="root", text="go")
        await server.call("session/info", session_id=quiet)
        before = len(server.events)
        await server.call("task/cancel", session_id=loud, task_id=flood[0])
        assert (await server.answer(request_id))["status"] == "completed"
        await server.event("task_complete", task_id=flood[-1])
        started = [event["session_id"] for event in server.events[before:] if event["type"] == "task_started"]
        assert (started.index(quiet) <= 1, started.count(loud)) == (True, 7)
