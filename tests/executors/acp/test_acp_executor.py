"""ACP agents run by themselves: one program a conversation, started, kept, given up. See also `test_acp_backends`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.executors.acp.acp_executor import AcpExecutor
from tertulia.executors.acp.presets import ACP_PRESETS
from tertulia.executors.executor import (
    Assignment,
    NativeSessionId,
    Progress,
    RunEnd,
    RunFailed,
    RunFinished,
    UsageReport,
)
from tertulia.policy.rights import TOP
from tests.executors.acp_hosts import acp_crew
from tests.executors.acp_stage import received


def answer(steps: list[Any]) -> dict[str, Any]:
    (ending,) = [step for step in steps if isinstance(step, RunEnd)]
    assert isinstance(ending, RunFinished), ending
    assert steps[-1] is ending
    return json.loads(ending.text or "")


async def test_a_run_is_an_id_steps_usage_and_one_ending(tmp_path: Path) -> None:
    """The contract of `Executor.run`."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        steps = await crew.run(executor, "hello")
        assert isinstance(steps[0], NativeSessionId)
        assert [step.turn.total_tokens for step in steps if isinstance(step, UsageReport)] == [15]
        assert answer(steps)["heard"] == ["hello"]
        await executor.close()


async def test_one_program_for_each_conversation(tmp_path: Path) -> None:
    """Issue 11, 4: long-lived, closed with its conversation; resumed without a word where it still knows."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        first = await crew.run(executor, "one")
        again = await crew.run(executor, "two", resume=first[0].id)  # type: ignore[union-attr]
        assert answer(again)["heard"] == ["one", "two"]
        other = await crew.run(executor, "three", conversation="d")
        assert answer(other)["pid"] != answer(first)["pid"]
        await executor.forget("c")
        await executor.forget("c")
        lost = await crew.run(executor, "four", resume=first[0].id)  # type: ignore[union-attr]
        assert isinstance(lost[-1], RunFailed)
        assert not any(isinstance(step, NativeSessionId) for step in lost)
        await executor.close()


async def test_l5_full_access_is_another_program(tmp_path: Path) -> None:
    """L5: one that was started among its own processes cannot end the user's, and the other way round."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor(pid_namespace=True)
        numbers = [
            answer([step async for step in executor.run(Assignment("go", "/", conversation="c", rights=rights))])["pid"]
            for rights in (replace(TOP, sandbox="read_only"), TOP, TOP, replace(TOP, sandbox="read_only"))
        ]
        assert numbers[1] == numbers[2]
        assert numbers[1] not in (numbers[0], numbers[3])
        await executor.close()


async def test_another_directory_is_another_program(tmp_path: Path) -> None:
    """Bound to its directory."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        first = answer(await crew.run(executor, "one"))
        steps = [
            step
            async for step in executor.run(Assignment(prompt="two", cwd=str(tmp_path), conversation="c", roots=("/",)))
        ]
        assert answer(steps)["pid"] != first["pid"]
        await executor.close()


async def test_one_whose_variable_says_something_else_begins_no_session(tmp_path: Path) -> None:
    """Issue 17, item 15: what stands there counts for every session that begins in that program."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor(below=ACP_PRESETS["codex"])
        received_text = [("usual",), ("usual",), ("for now",)]
        answers = [answer(await crew.run(executor, "go", additions=additions)) for additions in received_text]
        assert [answer["heard"] for answer in answers] == [["go"]] * 3
        first, again, other = (answer["pid"] for answer in answers)
        assert first == again != other
        await executor.close()


async def test_one_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """HARDENING C11: hangs in initialize; the error says so and nothing runs any more."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor("silent", start_s=0.3)
        (ending,) = await crew.run(executor, "hello")
        assert isinstance(ending, RunFailed)
        assert ending.message.startswith("fake did not answer initialize within 0.3 s; a larger `start_timeout_s`")


async def test_its_start_is_told_and_what_it_printed_stands_in_the_refusal(tmp_path: Path) -> None:
    """Issue 25, 5: start-up as progress; a program that asks for a login on its output is understood."""
    async with acp_crew(tmp_path) as crew:
        start, *_ = await crew.run_whole(crew.executor("prints", start_s=2.0), "hello")
        assert start == Progress("fake starts (it has 2 s)")
        (ending,) = await crew.run(crew.executor("prints", start_s=2.0), "hello")
        assert isinstance(ending, RunFailed)
        assert "within 2 s" in ending.message
        assert "Visit https://login.example to log in / Code:" in ending.message
        (ending,) = await crew.run(crew.executor("html"), "hello")
        assert isinstance(ending, RunFailed)
        assert "502" in ending.message


async def test_with_other_tools_it_is_started_again_and_takes_its_session_up(tmp_path: Path) -> None:
    """Issue 25, 5: an agent that lists the tools of a server once gets those that come later."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor("load")
        first = await crew.run(executor, "one", server=("true", "path"))
        assert isinstance(first[0], NativeSessionId)
        same = await crew.run_whole(executor, "two", server=("true", "path"), resume=first[0].id)
        assert not any(isinstance(step, Progress) for step in same)
        start, *steps = await crew.run_whole(executor, "three", server=("true", "path", "tools-1"), resume=first[0].id)
        assert isinstance(start, Progress)
        assert "the tools of its conversation" in start.message
        assert answer(steps)["heard"] == ["one", "two", "three"]
        assert answer(steps)["pid"] != answer(first)["pid"]
        await executor.close()


async def test_one_whose_settings_cannot_be_understood_is_not_started(tmp_path: Path) -> None:
    """DESIGN: exactly one MCP server; who knows which they name."""
    settings = tmp_path / ".config" / "opencode" / "opencode.json"
    settings.parent.mkdir(parents=True)
    settings.write_text("{")
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor(below=ACP_PRESETS["opencode"])
        (ending,) = await crew.run(executor, "hello")
        assert isinstance(ending, RunFailed)
        assert (ending.code, str(settings) in ending.message) == ("unsupported_by_backend", True)
        assert not (tmp_path / "received").exists()
        settings.write_text("{}")
        assert answer(await crew.run(executor, "hello"))["heard"] == ["hello"]
        assert (tmp_path / "received").exists()
        await executor.close()


async def test_a_private_run_has_a_home_that_goes_with_it(tmp_path: Path) -> None:
    """Issue 11, 2: nothing of it is left anywhere."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        await crew.run(executor, "one")
        home = await crew.run(executor, "environment HOME", private=True)
        ending = home[-1]
        assert isinstance(ending, RunFinished)
        assert ending.text != str(tmp_path)
        assert not Path(ending.text or "/").exists()
        assert len(received(tmp_path, "session/prompt")) == 1
        await executor.close()


@pytest.mark.parametrize("variables", [{"TOKEN": "x"}])
async def test_what_its_environment_says_in_a_run(tmp_path: Path, variables: dict[str, str]) -> None:
    """S001-37: for programs that it starts."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        *_, ending = await crew.run(executor, "environment TOKEN", variables=variables)
        assert ending == RunFinished("x")
        await executor.close()


async def test_closing_the_steps_stops_the_agent_and_keeps_it(tmp_path: Path) -> None:
    """The contract of `Executor.run`: closing the iterator stops the task before it returns."""
    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        mark = tmp_path / "mark"
        steps = executor.run(Assignment(prompt=f"hang {mark}", cwd="/", conversation="c", roots=("/",)))
        assert isinstance(await anext(steps), Progress)
        first = await anext(steps)
        assert isinstance(first, NativeSessionId)
        await anext(steps)
        await steps.aclose()
        assert received(tmp_path, "session/cancel") == [{"sessionId": first.id}]
        again = await crew.run(executor, "hello", resume=first.id)
        assert answer(again)["heard"][-1] == "hello"
        await executor.close()


async def test_no_room_for_a_home_is_a_failure_and_nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract of `Executor`: failures are told, never raised."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    async with acp_crew(tmp_path) as crew:
        steps = await crew.run(crew.executor(), "hello", private=True)
    assert steps == [RunFailed("fake cannot be started: No such file or directory")]
    assert not (tmp_path / "received").exists()


async def test_a_directory_that_is_gone_is_a_failure_and_it_works_again_when_it_is_back(tmp_path: Path) -> None:
    """Issue 11, bad input: the directory that it works in vanished between two tasks."""
    place = tmp_path / "place"
    place.mkdir()

    async def asked(executor: AcpExecutor, prompt: str, **fields: Any) -> list[Any]:
        assignment = Assignment(prompt=prompt, cwd=str(place), conversation="c", roots=("/",), **fields)
        return [step async for step in executor.run(assignment)]

    async with acp_crew(tmp_path) as crew:
        executor = crew.executor()
        first = await asked(executor, "one")
        place.rmdir()
        await executor.forget("c")
        _, failed = await asked(executor, "two")
        assert isinstance(failed, RunFailed)
        assert "place" in failed.message
        place.mkdir()
        assert answer(await asked(executor, "three"))["pid"] != answer(first)["pid"]
        await executor.close()
