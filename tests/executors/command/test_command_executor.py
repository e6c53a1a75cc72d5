"""An agent that is a program: its steps, its one ending, and what is left of it afterwards: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.executors.command import command_executor
from tertulia.executors.command.codex_jsonl import CodexJsonl
from tertulia.executors.command.definition import AgentHome, ExecutorDefinition
from tertulia.executors.executor import (
    AgentText,
    Assignment,
    NativeSessionId,
    RunEnd,
    RunFailed,
    RunFinished,
    Step,
    ToolUseBegin,
    ToolUseEnd,
    UsageReport,
)
from tertulia.policy.rights import TOP
from tests.executors.agents import Crew, crew, fake, until


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]


async def test_a_run_is_its_steps_and_one_ending(tmp_path: Path) -> None:
    """S003-26, S003-22: the prompt goes by stdin; steps come in order and the last is the one ending."""
    async with crew(tmp_path) as made:
        steps = await made.run(fake("codex", output="codex-jsonl"), "what is there?")
    assert kinds(steps) == ["NativeSessionId", "ToolUseBegin", "ToolUseEnd", "AgentText", "UsageReport", "RunFinished"]
    assert sum(isinstance(step, RunEnd) for step in steps) == 1
    assert json.loads(steps[-1].text)["heard"] == ["what is there?"]  # type: ignore[union-attr]
    assert not any("what is there" in argument for argument in json.loads(steps[-1].text)["arguments"])  # type: ignore[union-attr]


async def test_an_agent_goes_on_with_its_own_conversation_by_its_id(tmp_path: Path) -> None:
    """S003-25: the id goes where the template says, and what it cost since is what is added."""
    definition = fake("codex", output="codex-jsonl", resume_with=("resume", "{id}"))
    async with crew(tmp_path) as made:
        first = await made.run(definition, "one")
        found = next(step.id for step in first if isinstance(step, NativeSessionId))
        total = next(step.total for step in first if isinstance(step, UsageReport))
        second = await made.run(definition, "two", resume=found, total=total)
    assert json.loads(second[-1].text)["heard"] == ["one", "two"]  # type: ignore[union-attr]
    assert next(step.turn.input_tokens for step in second if isinstance(step, UsageReport)) == 10


async def test_an_id_that_the_agent_does_not_know_gives_no_id_and_a_failure(tmp_path: Path) -> None:
    """S003-32, bad input: a resume id of another executor. What it wrote to stderr is in the error."""
    definition = fake("codex", output="codex-jsonl", resume_with=("resume", "{id}"))
    async with crew(tmp_path) as made:
        steps = await made.run(definition, resume="somebody-else's")
    assert steps == [RunFailed("fake exited with code 1: no thread somebody-else's")]


async def test_what_a_plain_program_says_is_the_answer(tmp_path: Path) -> None:
    """S003-01: other tools need no code."""
    async with crew(tmp_path) as made:
        assert (await made.ending(fake("echo"), "grüß\ngott\n")) == RunFinished("grüß\ngott")
        assert (await made.ending(fake("at_once"))) == RunFinished(None)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (fake("exits"), RunFailed("fake exited with code 3: one / no way")),
        (fake("exits", output="codex-jsonl"), RunFailed("fake exited with code 3: one / no way")),
        (
            fake("logged_out", output="codex-jsonl", login="fake login"),
            RunFailed("fake exited with code 1: Error: Not logged in (log in with `fake login`)"),
        ),
        (
            fake("old", output="codex-jsonl", install="get it"),
            RunFailed(
                "fake exited with code 2: error: unexpected argument '--json' found "
                "(this version of `{program}` may not fit; the newest comes with `get it`)"
            ),
        ),
        (
            fake("at_once", output="codex-jsonl"),
            RunFailed("the output of fake ended before it said how the task did", "interrupted"),
        ),
        (
            fake("html", output="codex-jsonl"),
            RunFailed(
                "the output of fake ended before it said how the task did; lines of its output that made no sense: 3",
                "interrupted",
            ),
        ),
        (
            ExecutorDefinition(command=("no-such-agent",), install="npm install it"),
            RunFailed("fake is not installed: there is no `no-such-agent` in PATH; install it with `npm install it`"),
        ),
        (
            ExecutorDefinition(command=("/etc/passwd",)),
            RunFailed("fake cannot be started: `/etc/passwd`: Permission denied"),
        ),
    ],
    ids=["text", "jsonl", "logged out", "old", "at once", "html", "missing", "no program"],
)
async def test_what_goes_wrong_is_one_sentence_with_the_way_out(
    tmp_path: Path, definition: ExecutorDefinition, expected: RunFailed
) -> None:
    """S003-30, bad input of issue 11: missing, wrong version, not logged in, exits at once, prints HTML."""
    expected = RunFailed(expected.message.replace("{program}", definition.command[0]), expected.code)
    async with crew(tmp_path) as made:
        assert await made.ending(definition) == expected


async def test_who_says_that_it_succeeded_has_whatever_its_exit_code_says(tmp_path: Path) -> None:
    """S003-30: a task that was done is not done again because a program left badly; words alone are no such thing."""
    async with crew(tmp_path) as made:
        assert await made.ending(fake("fails_after", output="codex-jsonl")) == RunFinished(None)
        assert isinstance(await made.ending(fake("fails_after")), RunFailed)


@pytest.mark.parametrize("characters", [40_000, 5_000_000])
async def test_one_that_does_not_read_its_prompt_holds_nobody_up(tmp_path: Path, characters: int) -> None:
    """S003-22, issue 11, bad input: more than a pipe holds, and nobody at its other end."""
    async with crew(tmp_path) as made:
        assert await made.ending(fake("deaf", output="codex-jsonl"), "x" * characters) == RunFinished("I know")
        executor, mark = made.executor(fake("deaf", str(tmp_path / "mark"), output="codex-jsonl")), tmp_path / "mark"
        steps = executor.run(Assignment(prompt="x" * characters, cwd="/"))
        assert isinstance(await anext(steps), AgentText)
        await until(mark.exists)
        await steps.aclose()


async def test_who_is_left_behind_with_its_output_is_not_waited_for(tmp_path: Path) -> None:
    """HARDENING C11, issue 11, bad input: daemons that hold standard output open."""
    async with crew(tmp_path) as made:
        ending = await made.ending(fake("holder", output="codex-jsonl"))
        assert isinstance(ending, RunFinished)
        assert not is_alive(int(ending.text or 0))


async def test_a_directory_that_is_not_there_is_a_failure_and_nothing_ran(tmp_path: Path) -> None:
    async with crew(tmp_path) as made:
        executor = made.executor(fake("echo"))
        steps = [step async for step in executor.run(Assignment(prompt="x", cwd="/no/such/place"))]
    (failed,) = steps
    assert isinstance(failed, RunFailed)
    assert failed.code == "invalid_params"
    assert "/no/such/place" in failed.message


async def test_rights_that_it_has_no_words_for_refuse_it_before_it_starts(tmp_path: Path) -> None:
    """DESIGN fine print: refused where they have none for it."""
    definition = fake("echo", sandbox={"read_only": ()})
    rights = replace(TOP, sandbox="workspace_write")
    async with crew(tmp_path) as made:
        ending = await made.ending(definition, rights=rights, roots=("/",))
        assert ending.code == "unsupported_by_backend"
        assert await made.ending(definition, rights=replace(TOP, sandbox="read_only")) == RunFinished("hello")


async def test_lines_of_any_length_and_any_characters_are_read(tmp_path: Path) -> None:
    """S003-27, HARDENING C10: a line of 1 MB, with NUL and bidi in it."""
    async with crew(tmp_path) as made:
        steps = await made.run(fake("long", output="codex-jsonl"))
    (text,) = [step.text for step in steps if isinstance(step, AgentText)]
    assert len(text) == 1_100_002
    assert text.endswith("y\u202e\x00")


async def test_600_kb_on_stderr_hold_nobody_up(tmp_path: Path) -> None:
    """HARDENING C9"""
    async with crew(tmp_path) as made:
        assert await made.ending(fake("noisy")) == RunFinished("fine")


async def test_one_that_never_stops_talking_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input of issue 11: floods stdout. What is kept is bounded, and so is how long it goes on."""
    monkeypatch.setattr(command_executor, "MAX_OUTPUT_BYTES", 3_000_000)
    async with crew(tmp_path) as made:
        for output in ("text", "codex-jsonl"):
            ending = await made.ending(fake("flood", output=output))
            assert ending == RunFailed("fake wrote more than 3,000,000 bytes and was stopped", "limit")


@pytest.mark.parametrize(
    ("line", "limit", "words"),
    [("<p>", "MAX_NONSENSE", "lines that make no sense"), ("{x}", "MAX_NONSENSE", "lines that make no sense"),
     ("{}", "MAX_STEPS", "events")],
)  # fmt: skip
async def test_one_that_never_stops_saying_nothing_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, limit: str, words: str
) -> None:
    """Bad input of issue 11: many short lines cost far more than one long one."""
    monkeypatch.setattr(command_executor, limit, 30_000)
    async with crew(tmp_path) as made:
        ending = await made.ending(fake("flood_of", line, output="codex-jsonl"))
        assert ending == RunFailed(f"fake wrote more than 30,000 {words} and was stopped", "limit")


async def test_others_have_their_turn_while_one_floods_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines without a meaning make no steps that could wait for us: it is held up by its bytes."""
    fed: list[int] = []
    real = CodexJsonl.feed

    async def feed(parser: CodexJsonl, chunk: bytes) -> list[Step]:
        fed.append(len(chunk))
        return await real(parser, chunk)

    monkeypatch.setattr(CodexJsonl, "feed", feed)
    monkeypatch.setattr(command_executor, "MAX_OUTPUT_BYTES", 4_000_000)
    longest = 0
    async with crew(tmp_path) as made:
        running = asyncio.create_task(made.ending(fake("flood_of", "<p>", output="codex-jsonl")))
        while not running.done():
            fed.clear()
            await asyncio.sleep(0)
            longest = max(longest, sum(fed))
    assert running.result().code == "limit"
    assert 0 < longest < 2 * command_executor.UNREAD_BYTES


async def test_a_slow_reader_holds_the_program_up_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for us is bounded."""
    monkeypatch.setattr(command_executor, "UNREAD_BYTES", 1)
    async with crew(tmp_path) as made:
        assert kinds(await made.run(fake("codex", output="codex-jsonl")))[-2:] == ["UsageReport", "RunFinished"]


async def test_one_that_has_said_all_and_does_not_leave_is_ended(tmp_path: Path) -> None:
    """Its ending stands: it had said how it did."""
    async with crew(tmp_path) as made:
        assert await made.ending(fake("late", output="codex-jsonl")) == RunFinished("done")


async def test_one_that_has_said_all_and_goes_on_about_nothing_is_ended_too(tmp_path: Path) -> None:
    """What it still says does not lengthen its time."""
    async with crew(tmp_path) as made:
        assert await made.ending(fake("chatty", output="codex-jsonl")) == RunFinished()


async def test_daemons_go_with_the_run(tmp_path: Path) -> None:
    """Bad input of issue 11: leaves daemons."""
    async with crew(tmp_path) as made:
        ending = await made.ending(fake("daemon"))
    assert not is_alive(int(ending.text))


@pytest.mark.parametrize("mode", ["hang", "hang_hard"])
async def test_leaving_a_run_ends_the_whole_tree_before_it_comes_back(tmp_path: Path, mode: str) -> None:
    """S003-30, HARDENING C11, I6: terminate, grace, kill; one that ignores SIGTERM too."""
    begun = tmp_path / "begun"
    async with crew(tmp_path) as made:
        executor = made.executor(fake(mode, str(begun), output="codex-jsonl"), grace_s=0.1)
        async with aclosing(executor.run(Assignment(prompt="", cwd=str(tmp_path)))) as steps:
            assert isinstance(await anext(steps), NativeSessionId)
            assert isinstance(await anext(steps), ToolUseBegin)
            await until(begun.exists)
            left = await _tree(made)
            assert all(map(is_alive, left))
        assert not any(map(is_alive, left))


async def _tree(made: Crew) -> list[int]:
    (process,) = [process for process in made.sandbox._running if process.finished is None]
    del process
    found = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    marker = str(made.home)
    return [pid for pid in found if marker in _command_line(pid)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


async def test_cancelling_the_reader_ends_the_tree(tmp_path: Path) -> None:
    """HARDENING I6: nothing of it comes afterwards."""
    begun = tmp_path / "begun"
    seen: list[Step] = []
    async with crew(tmp_path) as made:
        executor = made.executor(fake("hang", str(begun), output="codex-jsonl"))

        async def read() -> None:
            async with aclosing(executor.run(Assignment(prompt="", cwd="/"))) as steps:
                while True:
                    seen.append(await anext(steps))

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) == 2 and begun.exists())
        left = await _tree(made)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert left
        assert not any(map(is_alive, left))
    assert kinds(seen) == ["NativeSessionId", "ToolUseBegin"]


@pytest.mark.parametrize("rounds", range(8))
async def test_cancelled_at_any_moment_it_leaves_nothing(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S003-30, HARDENING I6: before it starts, while it starts, and after; its home goes too."""
    mark = tmp_path / "mark"
    (tmp_path / "places").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "places"))
    async with crew(tmp_path) as made:
        executor = made.executor(fake("hang", str(mark), output="codex-jsonl"))
        seen: list[Step] = []

        async def read() -> None:
            async with aclosing(executor.run(Assignment(prompt="", cwd="/", private=True, additions=("x",)))) as steps:
                seen.extend([step async for step in steps])

        reading = asyncio.create_task(read())
        for _ in range(rounds):
            await asyncio.sleep(0)
        if rounds == 7:
            await until(mark.exists)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not any(str(mark) in line for line in _command_lines())
    assert not [step for step in seen if isinstance(step, RunEnd)]
    assert list((tmp_path / "places").iterdir()) == []


def _command_lines() -> list[str]:
    lines: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_text(errors="replace"))
    return lines


async def test_what_it_is_told_is_a_file_that_only_it_can_see(tmp_path: Path) -> None:
    """X-63, HARDENING A15: nothing of it in the list of processes, nothing on a disk, and gone with the run."""
    text = "a secret\n" + "x" * 200_000
    definition = fake("reads", system=("{file}",))
    async with crew(tmp_path) as made:
        await made.ending(definition, additions=(text,))
        open_before = len(os.listdir("/proc/self/fd"))
        ending = await made.ending(definition, additions=(text, "\ud800"))
        answer = json.loads(ending.text)
        assert answer["read"] == f"{text}\n\n?"
        assert "secret" not in answer["line"]
        assert not Path(answer["path"]).exists()
        assert len(os.listdir("/proc/self/fd")) == open_before


async def test_no_room_for_a_home_is_a_failure_and_nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract of `Executor`: failures are told, never raised."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    async with crew(tmp_path) as made:
        ending = await made.ending(fake("echo"), private=True)
    assert ending == RunFailed("fake cannot be started: No such file or directory")


async def test_the_child_gets_its_own_environment_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S003-31, HARDENING A15: keys only in the child's environment, and only those that were meant for it."""
    monkeypatch.setenv("SOME_API_KEY", "ours")
    async with crew(tmp_path) as made:
        executor = made.executor(fake("environment"), FAKE_KEY="its own")
        steps = [step async for step in executor.run(Assignment(prompt="", cwd="/", variables={"RUN": "1"}))]
    environment = json.loads(steps[-1].text)  # type: ignore[union-attr]
    assert environment["FAKE_KEY"] == "its own"
    assert environment["RUN"] == "1"
    assert "SOME_API_KEY" not in environment
    assert "FAKE_KEY" not in os.environ


@pytest.mark.parametrize("way", ["private", "isolated"])
async def test_a_private_run_has_a_home_that_goes_with_it(tmp_path: Path, way: str) -> None:
    """S003-24, S003-31: HOME is 0700 and temporary, the login is there with mode 0600, nothing is left."""
    usual = tmp_path / ".fake"
    usual.mkdir()
    (usual / "auth.json").write_text("secret")
    (usual / "said.json").write_text("what was said")
    home = AgentHome(variable="FAKE_HOME", folder=".fake", files=("auth.json", "absent.json"))
    definition = fake("environment", home=home, isolated_home=way == "isolated")
    async with crew(tmp_path) as made:
        ending = await made.ending(definition, private=way == "private")
    environment = json.loads(ending.text)
    assert environment["HOME"] != str(tmp_path)
    assert environment["FAKE_HOME"] == f"{environment['HOME']}/.fake"
    assert not os.path.exists(environment["HOME"])
    assert sorted(os.listdir(usual)) == ["auth.json", "said.json"]


async def test_with_an_isolated_home_there_is_nothing_to_resume(tmp_path: Path) -> None:
    """S003-24, S003-25"""
    async with crew(tmp_path) as made:
        assert made.executor(fake("codex", resume_with=("resume", "{id}"))).can_resume
        assert not made.executor(fake("codex", resume_with=("resume", "{id}"), isolated_home=True)).can_resume
        assert not made.executor(fake("codex")).can_resume


async def test_one_agent_in_two_homes_is_two(tmp_path: Path) -> None:
    """S003-32: an id is good for the same agent with the same home only."""
    home = AgentHome(variable="FAKE_HOME", folder=".fake")
    async with crew(tmp_path) as made:
        one = made.executor(fake("codex", home=home)).identity
        other = made.executor(fake("codex", home=home), FAKE_HOME="/elsewhere").identity
    assert one[:-1] == other[:-1]
    assert (one[-1], other[-1]) == (str(tmp_path / ".fake"), "/elsewhere")


async def test_the_end_of_a_step_says_how_it_did(tmp_path: Path) -> None:
    async with crew(tmp_path) as made:
        steps = await made.run(fake("codex", output="codex-jsonl"))
    (done,) = [step for step in steps if isinstance(step, ToolUseEnd)]
    assert (done.success, done.output, done.exit_code) == (True, "a\n", 0)
