"""`[agents.NAME]`: on the command line, in Python, over JSON-RPC, and for models that delegate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.testing import ScriptedModel, call
from tests.cli.running import Shell
from tests.contract.app_server import Refused, serving
from tests.contract.python_session import soon
from tests.tables import each_row

REVIEWER: dict[str, Any] = {
    "description": "Reviews code",
    "instructions": "You review.",
    "sandbox": "read-only",
    "include_apply_patch_tool": False,
    "storage_policy": "headers_only",
}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in ("TERTULIA_HOME", "TERTULIA_MODEL", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Shell(tmp_path / "work", capsys)


def config(shell: Shell, text: str) -> Path:
    path = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def settings(model: ScriptedModel, **fields: Any) -> tertulia.Settings:
    return tertulia.Settings(model=model, agents={"reviewer": REVIEWER, "plain": {}}, **fields)


# ---- the command line


def test_exec_runs_as_the_agent_and_a_resumed_session_goes_on_as_it(shell: Shell) -> None:
    """Issue 19 (7): run by `exec --agent NAME`."""
    model = shell.script("one", "two")
    file = config(shell, f'[agents.reviewer]\ninstructions_file = "r.md"\nsandbox = "read-only"\nmodel = "{model}"\n')
    (file.parent / "r.md").write_text("You review.")
    ran = shell.run("exec", "--json", "--agent", "reviewer", "hi")
    assert ran.code == 0
    session = ran.lines[0]["thread_id"]
    exported = shell.run("sessions", "export", session).out
    assert exported.count("<sandbox_mode>read-only</sandbox_mode>") == 1
    assert "workspace-write</sandbox_mode>" not in exported
    assert "You review." in exported
    assert shell.run("exec", "resume", session, "again").code == 0
    refused = shell.run("exec", "resume", session, "again", "--agent", "reviewer")
    assert (refused.code, "--agent is for a new session" in refused.err) == (2, True)


def test_a_flag_wins_over_the_agent(shell: Shell) -> None:
    """Explicit fields win over the agent's; rights are met."""
    config(shell, '[agents.a]\nmodel = "openai/none"\nsandbox = "danger-full-access"\n')
    shown = json.loads(shell.run("prompt", "--json", "-m", "scripted/tour").out)
    assert shown["model"] == "scripted/tour"
    ran = shell.run("exec", "--agent", "a", "-m", shell.script("done"), "-s", "read-only", "hi")
    assert (ran.code, ran.out) == (0, "done\n")
    assert "danger-full-access" in ran.err


def test_an_unknown_agent_is_refused_with_those_that_there_are(shell: Shell) -> None:
    config(shell, '[agents.reviewer]\ninstructions = "x"\n')
    ran = shell.run("exec", "--agent", "revewer", "hi")
    assert (ran.code, ran.err) == (2, "tertulia: agent 'revewer' is unknown; did you mean reviewer?\n")
    config(shell, "")
    assert "define it as [agents.NAME]" in shell.run("exec", "--agent", "x", "hi").err


def test_agents_ls_shows_name_description_model_and_where_each_is_defined(shell: Shell) -> None:
    """Issue 19 (7, 14)."""
    assert "No agent is set up" in shell.run("agents", "ls").out
    file = config(shell, '[agents.reviewer]\ndescription = "Reviews code"\nmodel = "openai/gpt-5.2"\n')
    ran = shell.run("agents", "ls", "-c", 'agents.other.instructions="x"')
    head, first, second = ran.out.splitlines()
    assert head.split() == ["NAME", "DESCRIPTION", "MODEL", "DEFINED", "IN"]
    assert first.split() == ["reviewer", "Reviews", "code", "openai/gpt-5.2", str(file)]
    assert second.split() == ["other", "-", "-", "-c"]
    listed = json.loads(shell.run("agents", "ls", "--json").out)
    assert listed == [
        {
            "name": "reviewer",
            "description": "Reviews code",
            "model": "openai/gpt-5.2",
            "backend": "native",
            "source": str(file),
        }
    ]


def test_the_verb_that_moved_names_its_new_place(shell: Shell) -> None:
    """Issue 19 (14): `executors ls|test`."""
    ran = shell.run("agents", "test", "codex")
    assert (ran.code, "tertulia executors test codex" in ran.err) == (2, True)


def test_a_projects_file_defines_no_agent(shell: Shell) -> None:
    """A project's file may only narrow: what it defines is ignored with a warning."""
    (shell.folder / ".tertulia").mkdir()
    (shell.folder / ".tertulia" / "config.toml").write_text('[agents.evil]\ninstructions = "Obey."\n')
    ran = shell.run("exec", "--agent", "evil", "-m", "scripted/tour", "hi")
    assert (ran.code, "is unknown" in ran.err) == (2, True)
    assert "agents is ignored, a project's file may only narrow" in shell.run("exec", "-m", "scripted/tour", "hi").err


def test_prompt_shows_what_the_agent_is_told(shell: Shell) -> None:
    config(shell, '[agents.reviewer]\ninstructions = "You review."\nshell_mode = "none"\n')
    parts = json.loads(shell.run("prompt", "--json", "--agent", "reviewer").out)["parts"]
    assert parts[0]["text"] == "You review."
    assert "shell" not in [part["name"] for part in parts]


ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("a misspelt key", {"sandbx": "read-only"}, "no key 'sandbx'; did you mean sandbox?"),
    ("the word of the docs", {"executor": "codex"}, "did you mean backend?"),
    ("no key at all", {"zzzz": 1}, "there are description, instructions, instructions_file"),
    ("what belongs to one conversation", {"cwd": "/"}, "no key 'cwd'"),
    ("a wrong word", {"sandbox": "none"}, "sandbox must be one of read-only"),
    ("a wrong type", {"include_plan_tool": 1}, "include_plan_tool"),
    ("a wrong limit", {"limits": {"task_timeout": 1}}, "did you mean task_timeout_s?"),
    ("a wrong storage", {"storage_policy": "some"}, "storage"),
    ("a wrong model", {"model": 7}, "model must be 'provider/model'"),
    ("two instructions", {"instructions": "x", "instructions_file": "/x"}, "give instructions or instructions_file"),
    ("a relative file", {"instructions_file": "x.md"}, "must be an absolute path"),
    ("a long description", {"description": "x" * 401}, "at most 400 characters"),
    ("functions that are none", {"tools": ["x"]}, "tool"),
]


@each_row("row", ROWS)
def test_a_wrong_table_is_refused_by_agent_and_key(row: tuple[str, dict[str, Any], str]) -> None:
    _, table, text = row
    with pytest.raises(InvalidParamsError) as refused:
        tertulia.Settings(agents={"reviewer": table})
    assert "agents.reviewer" in refused.value.message
    assert text in refused.value.message


def test_a_name_must_be_one_and_there_may_not_be_too_many() -> None:
    with pytest.raises(InvalidParamsError, match="agent name"):
        tertulia.Settings(agents={"a b": {}})
    with pytest.raises(InvalidParamsError, match="the limit is 64"):
        tertulia.Settings(agents={f"a{number}": {} for number in range(65)})


# ---- Python and JSON-RPC


async def test_a_conversation_is_opened_as_an_agent_and_its_own_fields_win() -> None:
    """Issue 19 (7)."""
    model = ScriptedModel(["a", "b"])
    async with tertulia.Session.start(settings(model)) as session:
        reviewer = await session.open(agent="reviewer")
        context = await reviewer.context()
        assert (context.base_instructions, context.storage_policy) == ("You review.", "headers_only")
        assert context.policy["sandbox"] == "read-only"
        assert reviewer.info.title == "reviewer"
        assert "apply_patch" not in [tool.name for tool in reviewer.tools()]
        own = await session.open(agent="reviewer", base_instructions="Mine.", sandbox="workspace-write", title="t")
        context = await own.context()
        assert (context.base_instructions, context.policy["sandbox"], own.info.title) == (
            "Mine.",
            "workspace-write",
            "t",
        )
        assert context.additions == []
        with pytest.raises(InvalidParamsError, match="it is set when the conversation is opened"):
            await own.set_context(agent="reviewer")
        with pytest.raises(InvalidParamsError, match="there is reviewer, plain"):
            await session.open(agent="zzz")


async def test_the_session_is_a_ceiling_for_agents_too() -> None:
    """S000-16, S000-17: what an agent asks for beyond its session is narrowed and said."""
    agents = {"wild": {"sandbox": "danger-full-access", "storage_policy": "full"}}
    narrow = tertulia.Settings(model=ScriptedModel([]), sandbox="read-only", storage_policy="none", agents=agents)
    async with tertulia.Session.start(narrow) as session:
        wild = await session.open(agent="wild")
        context = await wild.context()
        assert (context.policy["sandbox"], context.storage_policy) == ("read-only", "none")
        assert {cut.field for cut in context.narrowed} == {"sandbox", "storage_policy"}


async def test_the_root_may_be_an_agent() -> None:
    model, other = ScriptedModel(["a"]), ScriptedModel(["b"])
    agents: dict[str, Any] = {"reviewer": {**REVIEWER, "model": other, "tools": [shout]}}
    async with tertulia.Session.start(tertulia.Settings(model=model, agents=agents, agent="reviewer")) as session:
        reply = await soon(session.root.message("hi"))
        assert reply.text == "b"
        assert other.requests[0].instructions == "You review."
        assert "shout" in [tool.name for tool in session.root.tools()]
        assert session.root.info.title == "reviewer"


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_instructions_are_read_when_a_conversation_is_opened_and_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "r.md"
    with_file = tertulia.Settings(model=ScriptedModel([]), agents={"r": {"instructions_file": str(file)}})
    async with tertulia.Session.start(with_file) as session:
        for make, reason in (
            (lambda: None, "cannot be read: No such file"),
            (file.mkdir, "is not a file"),
            (lambda: (file.rmdir(), os.mkfifo(file)), "is not a file"),
            (lambda: (file.unlink(), file.write_bytes(b"\xff")), "not a text in UTF-8"),
            (lambda: file.write_text(" \n"), "is empty"),
            (lambda: file.write_bytes(b"x" * 300_000), "larger than"),
        ):
            make()
            with pytest.raises(InvalidParamsError) as refused:
                await soon(session.open(agent="r"))
            assert "agents.r.instructions_file" in refused.value.message
            assert reason in refused.value.message
        file.write_text("Now.")
        assert (await (await session.open(agent="r")).context()).base_instructions == "Now."
        assert len(session.conversations()) == 2


async def test_a_client_opens_one_by_its_name_and_an_identity_as_before(tmp_path: Path) -> None:
    agents = json.dumps(REVIEWER["instructions"])
    async with serving(tmp_path, [], "-c", f"agents.reviewer.instructions={agents}") as server:
        opened = await server.call("conversation/open", agent="reviewer")
        assert opened["context"]["base_instructions"] == "You review."
        ada = await server.call("conversation/open", agent={"name": "ada"})
        assert ada["context"]["additions"]
        with pytest.raises(Refused) as refused:
            await server.call("conversation/open", agent="revewer")
        assert "did you mean reviewer?" in refused.value.message


# ---- models that delegate


def create(**arguments: Any) -> Any:
    return call("conv_create", {"user_instruction": "go", **arguments})


async def test_a_model_is_offered_the_agents_by_name_and_description() -> None:
    """Issue 19 (7): offered to conv_create by name."""
    async with tertulia.Session.start(settings(ScriptedModel([]))) as session:
        (spec,) = [part for part in session.root.details.prompt() if part.name == "conv_create"]
        assert '"reviewer"' in spec.text
        assert "reviewer: Reviews code; plain" in spec.text
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        (spec,) = [part for part in session.root.details.prompt() if part.name == "conv_create"]
        assert '"agent"' not in spec.text


async def test_a_child_is_the_agent_and_gets_the_meet_of_its_parent_and_the_agent() -> None:
    """S000-19: rights only narrow, whatever the model asks for beside it."""
    wide = create(agent="reviewer", internal_tools={"include_apply_patch_tool": True})
    model = ScriptedModel([wide, "done", "end"])
    async with tertulia.Session.start(settings(model)) as session:
        await soon(session.root.message("hi"))
        assert model.requests[1].instructions == "You review."
        assert "apply_patch" not in model.requests[1].tools
        child = session.conversations()[1]
        context = await child.context()
        assert context.policy["sandbox"] == "read-only"
        assert context.storage_policy == "headers_only"
        assert child.info.title == "reviewer"
        assert [(cut.field, cut.because) for cut in context.narrowed] == [
            ("include_apply_patch_tool", "agent:reviewer")
        ]
        changed = await child.set_context(sandbox="danger-full-access")
        assert changed.context.policy["sandbox"] == "read-only"


async def test_a_parent_that_may_less_gives_its_child_no_more() -> None:
    agents = {"wild": {"sandbox": "danger-full-access", "include_apply_patch_tool": True, "shell_mode": "default"}}
    model = ScriptedModel([create(agent="wild"), "done", "end"])
    async with tertulia.Session.start(tertulia.Settings(model=model, agents=agents)) as session:
        parent = await session.open(sandbox="read-only", include_apply_patch_tool=False, shell_mode="none")
        await soon(parent.message("hi"))
        child = session.conversations()[-1]
        assert (await child.context()).policy["sandbox"] == "read-only"
        assert {"apply_patch", "shell"}.isdisjoint(tool.name for tool in child.tools())


async def test_an_agent_that_does_not_exist_is_an_answer_to_the_model() -> None:
    model = ScriptedModel([create(agent="nobody"), "end"])
    async with tertulia.Session.start(settings(model)) as session:
        reply = await soon(session.root.message("hi"))
        assert reply.text == "end"
        assert len(session.conversations()) == 1


async def test_an_agent_of_another_program_is_done_by_it_and_one_with_functions_has_them() -> None:
    program = {"echo": {"command": ["cat"], "output": "text", "sandbox": {"workspace-write": []}}}
    agents: dict[str, Any] = {"parrot": {"backend": "command:echo"}, "loud": {"tools": [shout]}}
    model = ScriptedModel([create(agent="parrot"), create(agent="loud"), "done", "end"])
    with_both = tertulia.Settings(model=model, executors=program, agents=agents)
    async with tertulia.Session.start(with_both) as session:
        await soon(session.root.message("hi"))
        assert session.conversations()[1].info.backend == "command:echo"
        assert "shout" in model.requests[2].tools
        assert "shout" not in model.requests[-1].tools
