"""Everything that a model would be told, shown before any model is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.prompt.request import builtin_text
from tests.cli.running import Shell
from tests.cli.serving import configure, dot_mcp
from tests.mcp.fakes import bare


def shown(shell: Shell, *arguments: str) -> Any:
    ran = shell.run("prompt", "--json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def parts(prompt: Any, kind: str) -> list[str]:
    return [f"{part['source']}: {part['name']}" for part in prompt["parts"] if part["kind"] == kind]


def test_a_plain_conversation_is_told_the_instructions_and_where_it_works(shell: Shell) -> None:
    """Issue 9, item 8."""
    prompt = shown(shell, "-m", "scripted/tour")
    assert parts(prompt, "instructions") == [
        "built-in: instructions",
        "built-in, tools for code: instructions: code",
        "built-in, tool apply_patch: instructions: patch",
    ]
    assert prompt["parts"][0]["text"] == builtin_text("prompt")
    assert parts(prompt, "message") == ["session: environment_context"]
    assert {name.split(":")[0] for name in parts(prompt, "tool")} == {"builtin", "conv"}
    assert prompt["tokens"] == sum(part["tokens"] for part in prompt["parts"])
    assert (prompt["warnings"], prompt["narrowed"], prompt["unstarted"]) == ([], [], [])
    assert prompt["model"] == "scripted/tour"


def test_an_agent_is_told_more_and_each_part_names_its_provider(shell: Shell) -> None:
    (shell.folder / "AGENTS.md").write_text("Be tidy.")
    prompt = shown(shell, "--agent", "ada", "--archetype", "employee")
    additions = [name.split(":")[0] for name in parts(prompt, "message")]
    assert additions == ["core-identity", "canvas", "workspace", "internal-tools", "session", "project"]
    assert [name for name in parts(prompt, "tool") if name.startswith("injector")] == [
        "injector: canvas_update", "injector: canvas_clear",
    ]  # fmt: skip
    assert "Be tidy." in json.dumps(prompt)


def test_what_a_person_reads_is_the_text_and_then_a_table_with_a_total(shell: Shell) -> None:
    ran = shell.run("prompt", "--agent", "ada", "--archetype", "service")
    assert (ran.code, ran.err) == (0, "")
    assert "── context_additions · core-identity · " in ran.out
    assert "You are **ada**" in ran.out
    assert '"description": "The whole page; at most 512 KiB."' in ran.out
    *_, total, shares = ran.out.splitlines()
    assert total.split()[0] == "total"
    assert shares.startswith("instructions ")
    assert "injector " in shares


def test_the_table_alone_has_aligned_columns_and_adds_up(shell: Shell) -> None:
    ran = shell.run("prompt", "--brief", "-m", "scripted/tour", "--agent", "ada")
    head, *rows, total, _ = ran.out.splitlines()
    end = head.index("TOKENS") + len("TOKENS")
    numbers = [int(row[:end].split()[-1].replace(",", "")) for row in rows]
    assert all(row[end : end + 2] == "  " for row in rows)
    assert int(total[:end].split()[-1].replace(",", "")) == sum(numbers)
    assert "You are **ada**" not in ran.out.replace("Who you are You are **ada**", "")


def test_no_server_is_started_unless_it_is_asked_for(shell: Shell, tmp_path: Path) -> None:
    """Issue 9, item 8: their names are told instead."""
    record = tmp_path / "record"
    configure(shell, "fake", bare("--record", str(record), "--tools", "echo"))
    dot_mcp(shell, theirs=tuple(bare()))
    prompt = shown(shell)
    assert prompt["unstarted"] == ["fake", "theirs"]
    assert not record.exists()
    assert "not started fake, theirs: their tools are not listed" in shell.run("prompt", "--brief").out
    prompt = shown(shell, "--mcp")
    assert "mcp fake: fake__echo" in parts(prompt, "tool")
    assert record.read_text().startswith("start")
    assert prompt["unstarted"] == []


def test_what_was_cut_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from tertulia.context.injector import SessionContextInjector

    monkeypatch.setitem(SessionContextInjector.__init__.__kwdefaults__, "max_tokens", 400)
    (shell.folder / "AGENTS.md").write_text("Be tidy. " * 500)
    off = ("-c", "project_instructions=false")
    ran = shell.run("prompt", "--brief", "--agent", "ada", "--archetype", "employee", *off)
    assert "warning the context of 'workspace' was cut from" in ran.out


def test_nothing_is_stored_and_no_model_is_asked(shell: Shell, tmp_path: Path) -> None:
    ran = shell.run("prompt", "-m", "openai/gpt-5")
    assert ran.code == 0
    assert not list(tmp_path.rglob("*.db"))
    assert not list(tmp_path.rglob("*.sock"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--archetype", "employee"), "add --agent NAME"),
        (("--agent", "../x"), "the agent name"),
        (("--agent",), "--agent"),
        (("stray",), "stray"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(shell: Shell, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell.run("prompt", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
