"""The arguments of a run, and the rights that an agent cannot be held to."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.command.command_line import among_its_own, command_line, standard_input
from tertulia.executors.command.definition import CLAUDE, CODEX, ExecutorDefinition, executor_from_wire
from tertulia.executors.executor import Assignment
from tertulia.policy.rights import TOP

READ_ONLY = replace(TOP, sandbox="read_only")
WRITES = replace(TOP, sandbox="workspace_write", network=False)


def asked(**fields: Any) -> Assignment:
    return Assignment(**{"prompt": "p", "cwd": "/", **fields})


def test_codex_starts_and_goes_on_with_the_options_before_the_subcommand() -> None:
    """X-58: `codex exec --json … resume ID -`."""
    flags = ("--sandbox", "read-only")
    assert command_line("codex", CODEX, asked(rights=READ_ONLY)) == (
        *("codex", "exec", "--json", "--skip-git-repo-check", *flags, "-"),
    )
    assert command_line("codex", CODEX, asked(rights=READ_ONLY, resume="t-1"))[-3:] == ("resume", "t-1", "-")


def test_l5_it_is_among_its_own_processes_unless_it_may_end_those_of_the_user() -> None:
    """L5: with full access, and where its table says so, it meets them all."""
    assert among_its_own(CODEX, asked(rights=READ_ONLY))
    assert among_its_own(CODEX, asked(rights=WRITES))
    assert not among_its_own(CODEX, asked(rights=TOP))
    assert not among_its_own(replace(CODEX, pid_namespace=False), asked(rights=READ_ONLY))


def test_claude_starts_and_goes_on() -> None:
    line = command_line("claude", CLAUDE, asked(rights=READ_ONLY, resume="s-1"))
    assert line[:4] == ("claude", "-p", "--output-format", "stream-json")
    assert line[-2:] == ("--resume", "s-1")
    assert "--strict-mcp-config" in line


def test_as_root_claude_asks_where_it_may_skip_nothing() -> None:
    """Issue 25, 6: by a tool of our MCP server; a policy that needs asking refuses its other modes."""
    root, user = CLAUDE.for_user(0), CLAUDE.for_user(1000)
    assert (root.can_ask, user.can_ask) == (True, False)
    free = Assignment(prompt="", cwd="/", server=("relay", "path"))
    words = command_line("claude", root, free)
    assert "--dangerously-skip-permissions" not in words
    assert words[words.index("--permission-prompt-tool") + 1] == "mcp__tertulia__approve_own_tool"
    assert "--dangerously-skip-permissions" in command_line("claude", user, free)
    for changes, sentence in (
        ({"server": ()}, "MCP"),
        ({"rights": replace(TOP, sandbox="read_only")}, "cannot ask a person in the sandbox mode read-only"),
    ):
        with pytest.raises(UnsupportedByBackendError, match=sentence):
            command_line("claude", root, replace(free, **changes))
    own = executor_from_wire("claude", {"sandbox": {"danger-full-access": ["--mine"]}}, CLAUDE)
    assert "--mine" in command_line("claude", own.for_user(0), free)


def test_the_prompt_is_never_an_argument() -> None:
    """S003-22"""
    assignment = asked(prompt="a\0b\ud800" + "x" * 1_000_000, additions=("told",))
    for definition in (CODEX, CLAUDE):
        assert all(len(word) < 10_000 for word in command_line("x", definition, assignment))
        assert standard_input(definition, assignment, "/a-file", "a-layer").startswith(b"a\0b?xxx")


def test_in_a_workspace_it_may_write_what_we_may(tmp_path: Path) -> None:
    """DESIGN fine print: the flags that match ours; further roots and the network where the rights have them."""
    root, other, inside = str(tmp_path), "/srv/other", str(tmp_path / "inside")
    (tmp_path / "inside").mkdir()
    line = command_line("codex", CODEX, asked(rights=WRITES, cwd=root, roots=(root, other)))
    assert line[4:8] == ("--sandbox", "workspace-write", "--add-dir", other)
    assert not any("network" in word for word in line)
    line = command_line("codex", CODEX, asked(rights=replace(WRITES, network=True), cwd=inside, roots=(root,)))
    assert "sandbox_workspace_write.network_access=true" in line
    assert line[line.index("--add-dir") + 1] == root


@pytest.mark.parametrize("roots", [(), ("/srv",)])
def test_where_we_may_not_write_it_may_not_work(tmp_path: Path, roots: tuple[str, ...]) -> None:
    """Its own sandbox lets it write where it works: that must be ours to give."""
    with pytest.raises(UnsupportedByBackendError, match="is outside of what may be written"):
        command_line("codex", CODEX, asked(rights=WRITES, cwd=str(tmp_path), roots=roots))
    with pytest.raises(UnsupportedByBackendError):
        command_line("codex", CODEX, asked(rights=WRITES, cwd="/srvx", roots=("/srv",)))


def test_a_mode_without_words_is_refused_but_full_access() -> None:
    definition = ExecutorDefinition(command=("mine",))
    assert command_line("mine", definition, asked()) == ("mine",)
    with pytest.raises(UnsupportedByBackendError, match="held to the sandbox mode read-only"):
        command_line("mine", definition, asked(rights=READ_ONLY))


def test_tools_that_the_conversation_has_no_right_to_are_taken_from_it() -> None:
    """Rights only narrow, whoever does the work: no shell, no search."""
    less = replace(TOP, shell=False, tools_web_search_request=False)
    for definition in (CODEX, CLAUDE):
        assert definition.no_shell is not None
        taken = (*definition.no_shell, *definition.no_search)
        assert " ".join(taken) in " ".join(command_line("x", definition, asked(rights=less)))
        assert " ".join(definition.no_shell) not in " ".join(command_line("x", definition, asked()))
    bare = ExecutorDefinition(command=("mine",))
    with pytest.raises(UnsupportedByBackendError, match="does not say how its shell is taken away"):
        command_line("mine", bare, asked(rights=less))
    assert command_line("mine", replace(bare, no_shell=()), asked(rights=less)) == ("mine",)


def test_the_system_part_goes_in_each_run_in_the_agents_own_way() -> None:
    """X-63: in each run, resumed ones too; what is told may contain anything, and only its reader sees it."""
    additions = ('say "hi"\n{json} {text} {id} 😀', "", "more\0")
    text = 'say "hi"\n{json} {text} {id} 😀\n\nmore'
    for resume in (None, "t-1"):
        line = command_line("codex", CODEX, asked(additions=additions, resume=resume), (), "/the/file", "a-layer")
        assert line[line.index("--profile") + 1] == "a-layer"
        assert not any("hi" in word for word in line)
        line = command_line("claude", CLAUDE, asked(additions=additions, resume=resume), (), "/the/file")
        assert line[line.index("--append-system-prompt-file") + 1] == "/the/file"
        assert not any("hi" in word for word in line)
        assert standard_input(CLAUDE, asked(additions=additions, resume=resume), "/the/file") == b"p"
        mine = replace(CLAUDE, system=("--told", "{text}"))
        line = command_line("mine", mine, asked(additions=additions, resume=resume))
        assert line[line.index("--told") + 1] == text
        mine = replace(CLAUDE, system=("told={json}",))
        (word,) = [word for word in command_line("mine", mine, asked(additions=additions)) if word.startswith("told=")]
        assert json.loads(word.removeprefix("told=")) == text


def test_a_file_holds_more_than_an_argument_could() -> None:
    """X-63"""
    assignment = asked(additions=("be brief " * 20_000,))
    assert "/the/file" in command_line("claude", CLAUDE, assignment, (), "/the/file")
    assert standard_input(CLAUDE, assignment, "/the/file") == b"p"
    assert "/the/file" not in command_line("claude", CLAUDE, asked(), (), "/the/file")
    assert standard_input(CODEX, assignment, layer="a-layer") == b"p"
    assert "--profile" not in command_line("codex", CODEX, asked(), (), "", "")


@pytest.mark.parametrize(
    "definition",
    [
        ExecutorDefinition(command=("mine",)),
        ExecutorDefinition(command=("mine",), system=("{text}",)),
        CODEX,
        CLAUDE,
    ],
)
def test_without_another_way_it_stands_before_the_prompt(definition: ExecutorDefinition) -> None:
    """X-50: one that has no flag for it, more to be told than an argument can hold, no room for a layer or a file."""
    text = "be brief " * 20_000
    assignment = asked(additions=(text,))
    assert standard_input(definition, assignment) == f"{text}\n\np".encode()
    assert not any("be brief" in word for word in command_line("mine", definition, assignment))


@pytest.mark.parametrize(
    ("definition", "layer"), [(ExecutorDefinition(command=("mine",)), ""), (CODEX, ""), (CODEX, "a-layer")]
)
def test_one_that_goes_on_is_told_before_the_prompt_what_has_changed(
    definition: ExecutorDefinition, layer: str
) -> None:
    """X-50: Codex takes its settings for a conversation when that begins, and remembers what stood before a prompt."""
    first = asked(additions=("be brief",))
    same = asked(additions=("be brief",), resume="t-1", told=first.digest)
    other = asked(additions=("be long",), resume="t-1", told=first.digest)
    assert standard_input(definition, first, layer=layer) == (b"p" if layer else b"be brief\n\np")
    assert standard_input(definition, same, layer=layer) == b"p"
    assert standard_input(definition, other, layer=layer) == b"be long\n\np"
    assert standard_input(definition, asked(resume="t-1", told=first.digest), layer=layer) == b"p"


def test_its_one_mcp_server_is_ours() -> None:
    """DESIGN: executors get exactly one MCP server."""
    assignment = asked(server=("/usr/bin/tertulia", "mcp-broker", 'a "b"'))
    line = command_line("codex", CODEX, assignment, ("other", "tertulia"))
    config = [tomllib.loads(line[place + 1]) for place, word in enumerate(line) if word == "-c"]
    assert config == [
        {"mcp_servers": {"other": {"enabled": False}}},
        {"mcp_servers": {"tertulia": {"command": "/usr/bin/tertulia"}}},
        {"mcp_servers": {"tertulia": {"args": ["mcp-broker", 'a "b"']}}},
        {"mcp_servers": {"tertulia": {"default_tools_approval_mode": "approve"}}},
    ]
    line = command_line("claude", CLAUDE, assignment)
    assert json.loads(line[line.index("--mcp-config") + 1]) == {
        "mcpServers": {"tertulia": {"command": "/usr/bin/tertulia", "args": ["mcp-broker", 'a "b"']}}
    }
