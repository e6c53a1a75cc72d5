"""AGENTS.md through the public surfaces: who is told, when, in which order, and who is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call
from tests.cli.running import Ran, Shell
from tests.contract.app_server import serving
from tests.contract.python_session import past, soon


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in ("TERTULIA_HOME", "TERTULIA_MODEL", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return Shell(tmp_path / "work", capsys)


def on(folder: Path, model: ScriptedModel, **fields: Any) -> tertulia.Settings:
    return tertulia.Settings(model=model, cwd=str(folder), project_instructions=True, **fields)


def texts(model: ScriptedModel, request: int = -1) -> list[str]:
    """What the model read in one request, message by message."""
    return [getattr(item, "text", "") for item in model.requests[request].items]


def begins(model: ScriptedModel, request: int = -1) -> list[str]:
    return [text.partition(">")[0].removeprefix("<") for text in texts(model, request)]


def messages_shown(ran: Ran) -> list[dict[str, Any]]:
    return [part for part in json.loads(ran.out)["parts"] if part["kind"] == "message"]


def test_the_command_line_sends_it_after_the_environment_and_prompt_shows_it(shell: Shell) -> None:
    """Issue 19 (7)."""
    (shell.folder / "AGENTS.md").write_text("Rule one.")
    (shell.folder / "src").mkdir()
    (shell.folder / "src" / "AGENTS.md").write_text("Rule two.")
    shown = messages_shown(shell.run("prompt", "--json", "-C", "src", "-m", "scripted/tour"))
    assert [part["name"] for part in shown] == ["environment_context", "project_instructions"]
    assert shown[1]["source"] == "project"
    assert shown[1]["text"].index("Rule one.") < shown[1]["text"].index("Rule two.")
    off = messages_shown(shell.run("prompt", "--json", "-m", "scripted/tour", "-c", "project_instructions=false"))
    assert [part["name"] for part in off] == ["environment_context"]
    ran = shell.run("exec", "--json", "-m", shell.script("done"), "hi")
    session = ran.lines[0]["thread_id"]
    exported = shell.run("sessions", "export", session).out
    assert exported.count("Rule one.") == 1
    assert "Rule two." not in exported


def test_a_file_that_cannot_be_used_is_a_warning_on_standard_error(shell: Shell) -> None:
    (shell.folder / "AGENTS.md").write_bytes(b"\0\0")
    ran = shell.run("exec", "-m", shell.script("done"), "hi")
    assert (ran.code, ran.out) == (0, "done\n")
    assert "project file" in ran.err
    assert "zero byte" in ran.err
    assert "zero byte" in shell.run("prompt", "--brief").out


def test_it_is_on_where_files_are_loaded_and_off_in_plain_settings(tmp_path: Path) -> None:
    """Issue 19 (7)."""
    assert tertulia.Settings.load(tmp_path).project_instructions is True
    assert tertulia.Settings.load(tmp_path, project_instructions=False).project_instructions is False
    assert tertulia.Settings().project_instructions is False


def test_a_projects_own_file_cannot_switch_it_on(shell: Shell) -> None:
    """It is no right: a project's file may only narrow."""
    (shell.folder / ".tertulia").mkdir()
    (shell.folder / ".tertulia" / "config.toml").write_text("project_instructions = true\n")
    (shell.folder / "AGENTS.md").write_text("Rule.")
    ran = shell.run("prompt", "--json", "-m", "scripted/tour")
    assert len(messages_shown(ran)) == 2
    loaded = shell.run("prompt", "--json", "-m", "scripted/tour", "-c", "project_instructions=false")
    assert len(messages_shown(loaded)) == 1


async def test_plain_settings_read_no_file_and_a_conversation_may_ask_for_it(tmp_path: Path) -> None:
    """S000-13, S000-15: without it a history begins with the environment alone."""
    (tmp_path / "AGENTS.md").write_text("Rule.")
    model = ScriptedModel(["a", "b"])
    async with tertulia.Session.start(tertulia.Settings(model=model, cwd=str(tmp_path))) as session:
        await soon(session.root.message("hi"))
        assert begins(model) == ["environment_context", "hi"]
        conversation = await session.open(project_instructions=True, user_instructions="Be brief.")
        await soon(conversation.message("hi"))
        assert begins(model) == ["user_instructions", "environment_context", "project_instructions", "hi"]
        assert [entry.text for entry in await conversation.history()] == ["hi", "b"]
        assert all(item.role == "user" for item in model.requests[-1].items if hasattr(item, "role"))


async def test_children_are_told_as_well_and_one_that_shares_a_history_is_not_told_twice(tmp_path: Path) -> None:
    """Issue 19 (7): children too."""
    (tmp_path / "AGENTS.md").write_text("Rule.")
    child = call("conv_create", {"user_instruction": "go"})
    sharing = call("conv_create", {"user_instruction": "go", "share_history": "all"})
    model = ScriptedModel([child, "one", sharing, "two", "end"])
    async with tertulia.Session.start(on(tmp_path, model)) as session:
        await soon(session.root.message("hi"))
        assert begins(model, 1) == ["environment_context", "project_instructions", "go"]
        assert [name for name in begins(model, 3) if name.startswith("project")] == ["project_instructions"]


async def test_what_was_sent_stays_and_a_change_is_told_with_the_next_task(tmp_path: Path) -> None:
    """The prefix of a prompt is the same in every turn; a file that changes follows the rule of context providers."""
    (tmp_path / "AGENTS.md").write_text("Rule one.")
    model = ScriptedModel(["a"] * 5)
    async with tertulia.Session.start(on(tmp_path, model)) as session:
        await soon(session.root.message("1"))
        await soon(session.root.message("2"))
        assert texts(model, 1)[: len(texts(model, 0))] == texts(model, 0)
        assert begins(model).count("project_instructions") == 1
        (tmp_path / "AGENTS.md").write_text("Rule two.")
        await soon(session.root.message("3"))
        assert texts(model, 2)[: len(texts(model, 1))] == texts(model, 1)
        assert "takes the place of the project instructions above" in texts(model)[-1]
        assert "Rule two." in texts(model)[-1]
        (tmp_path / "AGENTS.md").unlink()
        await soon(session.root.message("4"))
        assert "no longer hold" in texts(model)[-1]
        await soon(session.root.message("5"))
        assert begins(model).count("project_instructions") == 3


async def test_another_directory_has_other_instructions_and_switching_off_withdraws_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text(f"Rule {name}.")
    model = ScriptedModel(["a"] * 3)
    async with tertulia.Session.start(on(tmp_path / "one", model)) as session:
        await soon(session.root.message("1"))
        await session.root.set_context(cwd=str(tmp_path / "two"))
        await soon(session.root.message("2"))
        assert "Rule two." in texts(model)[-1]
        await session.root.set_context(project_instructions=False)
        await soon(session.root.message("3"))
        assert "no longer hold" in texts(model)[-1]


async def test_an_agent_is_told_once(tmp_path: Path) -> None:
    """Its workspace provider leaves the rules out where every conversation is told them."""
    (tmp_path / "AGENTS.md").write_text("Rule.")
    model = ScriptedModel(["a", "b"])
    async with tertulia.Session.start(on(tmp_path, model)) as session:
        ada = await session.open(agent={"name": "ada"})
        await soon(ada.message("hi"))
        assert begins(model) == ["context_additions", "environment_context", "project_instructions", "hi"]
        assert sum(text.count("Rule.") for text in texts(model)) == 1


async def test_another_program_reads_its_own(tmp_path: Path) -> None:
    """Issue 19 (7): not for executors."""
    (tmp_path / "AGENTS.md").write_text("Rule.")
    program = {"echo": {"command": ["cat"], "output": "text", "sandbox": {"workspace-write": []}}}
    async with tertulia.Session.start(on(tmp_path, ScriptedModel([]), executors=program)) as session:
        other = await session.open(backend="command:echo")
        reply = await soon(other.message("hi"))
        assert reply.text is not None
        assert "Rule." not in reply.text
        assert "Rule." not in str(other.details.items)


@pytest.mark.parametrize(("policy", "stored"), [("full", True), ("headers_only", False), ("none", False)])
async def test_it_is_stored_by_the_policy_and_told_again_where_it_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any, stored: bool
) -> None:
    """S000-24 says what is kept; a resumed conversation knows the instructions either way."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("canary-4711")
    model = ScriptedModel(["a", "b"])
    async with tertulia.Session.start(on(tmp_path / "work", model, storage_policy=policy)) as session:
        await soon(session.root.message("1"))
    found = any(b"canary-4711" in path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert found is stored
    if policy == "none":
        return
    async with tertulia.Session.resume(session.id, on(tmp_path / "work", model, storage_policy=policy)) as again:
        await soon(again.root.message("2"))
        assert sum("canary-4711" in text for text in texts(model)) == 1


async def test_a_server_tells_it_and_open_can_leave_it_out(tmp_path: Path) -> None:
    """Issue 19 (7): on by default in the server."""
    async with serving(tmp_path, []) as server:
        (tmp_path / "AGENTS.md").write_text("Be tidy. " * 1_000)
        answer = await server.call("conversation/open", cwd=str(tmp_path))
        off = await server.call("conversation/open", cwd=str(tmp_path), project_instructions=False)
        assert answer["context"]["prompt_tokens"] > off["context"]["prompt_tokens"] + 2_000
        assert (await server.call("conversation/history", conversation_id=answer["conversation_id"]))["entries"] == []


async def test_warnings_are_events_of_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\0")
    model = ScriptedModel(["a"])
    async with tertulia.Session.start(on(tmp_path, model)) as session:
        await soon(session.root.message("hi"))
        (warning,) = await past(session, type="warning")
        assert warning.conversation_id == session.root.id
        assert "zero byte" in warning.data.message
