"""Where settings come from; and no secret is shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli.inspect.doctor import _outside
from tertulia.sandbox import sandbox
from tertulia.sandbox.availability import install_command
from tertulia.sandbox.launcher import launched_process
from tertulia.sandbox.tier import Namespace
from tests.cli.running import Shell
from tests.cli.serving import config_of, configure, dot_mcp
from tests.mcp.fakes import bare
from tests.sandbox.confined import ROOT, need
from tests.sandbox.launcher.test_process_namespace import REFUSES
from tests.tables import each_row

SECRET = "hunter2hunter2"


def row(out: str, name: str) -> list[str]:
    return next(line.split() for line in out.splitlines() if line.split()[:1] == [name])


def test_every_setting_has_its_source(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTULIA_MODEL", "scripted/tour")
    ran = shell.run("doctor", "-s", "read-only", "-c", "limits.max_conversations=7")
    assert ran.code == 0
    assert row(ran.out, "sandbox") == ["sandbox", "read-only", "flag", "--sandbox"]
    assert row(ran.out, "model") == ["model", "scripted/tour", "environment", "TERTULIA_MODEL"]
    assert row(ran.out, "limits.max_conversations") == ["limits.max_conversations", "7", "-c"]
    assert row(ran.out, "network") == ["network", "False", "default"]
    assert "No problem was found." in ran.out


def test_files_are_listed_whether_they_are_there_or_not(shell: Shell) -> None:
    config = shell.folder / ".tertulia" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "other/model"\n[mcp_servers.fs]\ncommand = "x"\n')
    out = shell.run("doctor").out
    assert f"project's file                   found                    {config}" in out
    assert "user's file                      not there" in out
    assert f"warning {config}: model is ignored" in out
    assert row(out, "fs") == ["fs", "untrusted", str(config)]
    assert f"warning MCP server fs is untrusted: {config} defines it and you have not trusted it" in out


def test_no_secret_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    config = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'notify = ["tell", "{SECRET}"]\n'
        f'[mcp_servers.fs]\ncommand = "x"\nenv = {{ TOKEN = "{SECRET}" }}\n'
        f'[model_providers.mine]\nbase_url = "https://me:{SECRET}@example.com"\nwire = "chat"\n'
        f'[shell_environment]\nset = {{ KEY = "{SECRET}" }}\n'
    )
    ran = shell.run("doctor")
    assert "the MCP server fs fails" in ran.out
    assert SECRET not in ran.out + ran.err
    assert row(ran.out, "mcp_servers.fs.env.TOKEN") == ["mcp_servers.fs.env.TOKEN", str(config)]


def test_the_sandbox_is_tried_out(shell: Shell) -> None:
    need("bubblewrap")
    out = shell.run("doctor").out
    assert row(out, "bubblewrap")[:2] == ["bubblewrap", "works"]
    assert "11 of 11 attempts to get out were stopped" in out


def test_the_weaker_tier_says_what_it_does_not_cover(shell: Shell) -> None:
    need("landlock")
    out = shell.run("doctor", "-c", 'sandbox_tier="landlock"').out
    assert row(out, "landlock")[:2] == ["landlock", "works"]
    assert "protected names" in out


def test_a_report_to_be_sent_has_the_sandbox_and_nothing_of_the_user(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 25, 13"""
    need("bubblewrap")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = shell.run("doctor", "--report")
    assert ran.code == 0
    assert ran.out.startswith("Tertulia ")
    assert "stopped                          write outside the workspace" in ran.out
    for own in (SECRET, str(tmp_path), "Settings", os.environ["HOME"] + "/"):
        assert own not in ran.out, own


def test_a20_a_missing_sandbox_is_shown_with_the_package(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A20"""
    monkeypatch.setattr("tertulia.sandbox.availability.BWRAP", "/no/such/bwrap")
    monkeypatch.setattr("tertulia.sandbox.launcher.landlock.abi", lambda: 0)
    ran = shell.run("doctor", "-m", "scripted/tour")
    assert ran.code == 1
    assert "unavailable" in ran.out
    assert "not run without it" in ran.out
    assert "problem commands would be refused: /no/such/bwrap is missing" in ran.out
    assert ran.out.splitlines()[-2:] == ["What to do", f"  {install_command()}; `tertulia sandbox -- true` tries it"]
    assert shell.run("doctor", "-m", "scripted/tour", "-s", "danger-full-access").code == 0


def test_the_lesser_tier_is_shown_with_the_reason(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, changed since: bubblewrap, else Landlock, and that is said."""
    need("landlock")
    monkeypatch.setattr("tertulia.sandbox.availability.BWRAP", "/no/such/bwrap")
    out = shell.run("doctor").out
    assert "landlock                         works" in out
    assert "chosen by auto" in out
    assert "/no/such/bwrap is missing" in out


def test_masks_are_shown_with_where_they_come_from(shell: Shell, tmp_path: Path) -> None:
    """S9: what is there, by name; a mask of a setting, and a setting that takes one away."""
    home = tmp_path / "home"
    for name in (".ssh", ".aws", ".config/tertulia", "notes"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / ".bashrc").touch()
    out = shell.run("doctor", "-c", 'masks.unmask=["~/.aws"]', "-c", 'masks.add=["~/notes"]').out
    rows = [line.split() for line in out.splitlines()]
    assert ["~/.ssh", "SSH", "keys", "default"] in rows
    assert ["~/notes", "masked", "by", "a", "setting", "masks.add"] in rows
    assert ["~/.config/tertulia", "Tertulia's", "own", "settings,", "tokens", "and", "sessions", "always"] in rows
    assert not [row for row in rows if row[:1] == ["~/.aws"]]
    assert [row for row in rows if row[:1] == [f"{home}/.bashrc"]]


def test_a_workspace_that_no_session_may_have_is_a_complaint(shell: Shell, tmp_path: Path) -> None:
    """S1"""
    (tmp_path / "home").mkdir()
    ran = shell.run("doctor", "-C", str(tmp_path / "home"))
    assert ran.code == 1
    assert "problem no session may begin here: the workspace is your home" in ran.out


def test_mcp_servers_are_started_and_what_fails_is_a_problem(shell: Shell, tmp_path: Path) -> None:
    """C3, issue 19: configured, trusted or not, and what is wrong with them; one that is not trusted is not started."""
    mine, record = tmp_path / "mine", tmp_path / "record"
    configure(shell, "mine", bare("--record", str(mine)))
    configure(shell, "keyed", url="https://example.com/", bearer_token_env_var="NOT_SET_TOKEN")
    configure(shell, "gone", ["/no/such/server"])
    configure(shell, "off", enabled=False)
    file = dot_mcp(shell, theirs=bare("--record", str(record)))
    ran = shell.run("doctor", "-m", "scripted/tour")
    out = ran.out
    assert ran.code == 1
    assert row(out, "mine") == ["mine", "ready", str(config_of(shell))]
    assert row(out, "off")[:2] == ["off", "disabled"]
    assert row(out, "theirs") == ["theirs", "untrusted", str(file)]
    assert "warning MCP server theirs is untrusted" in out
    assert "problem the MCP server keyed fails: keyed: the variable NOT_SET_TOKEN is not set" in out
    assert "problem the MCP server gone fails" in out
    assert "`tertulia mcp test keyed` tries it" in out.rpartition("What to do")[2]
    assert "MCP server off" not in out
    assert mine.exists()
    assert not record.exists()
    shell.run("mcp", "trust", "theirs", "--yes")
    assert row(shell.run("doctor").out, "theirs") == ["theirs", "ready,", "trusted", str(file)]


MODELS = [
    ([], {}, "no model is set up"),
    (["-m", "openai/gpt-5.2"], {}, "openai/gpt-5.2 is configured, and OPENAI_API_KEY is not set"),
    (["-m", "openai/gpt-5.2"], {"OPENAI_API_KEY": SECRET}, None),
    (["-m", "nobody/any"], {}, "nobody"),
    (["-m", "local/smollm2"], {}, "was not pulled: `tertulia models pull smollm2`"),
    (["-m", "local/unheard"], {}, "unheard"),
    ([], {"ANTHROPIC_API_KEY": SECRET}, None),
    (["-c", 'model_providers.mine={base_url="http://127.0.0.1:9/v1", wire="chat"}', "-m", "mine/any"], {}, None),
]


@each_row("flags, variables, complaint", MODELS)
def test_no_model_that_can_answer_is_a_problem(
    shell: Shell, flags: list[str], variables: dict[str, str], complaint: str | None
) -> None:
    """Issue 19, 9"""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        ran = shell.run("doctor", *flags)
    assert ran.code == (0 if complaint is None else 1)
    assert ("problem no model can answer" in ran.out) is (complaint is not None)
    assert (complaint or "No problem was found.") in ran.out
    assert SECRET not in ran.out


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_l5_what_may_remain_is_said_in_either_tier(shell: Shell, tier: str) -> None:
    """L5"""
    need(tier)
    out = shell.run("doctor", "-c", f'sandbox_tier="{tier}"').out
    assert out.count("are all killed at the same moment") == 1


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_l5_why_a_program_may_remain_is_said_where_there_is_no_namespace(
    shell: Shell, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: the kernel has none for us (a fake); and where it has, only full access and `false` may remain."""
    need(tier)
    monkeypatch.setattr(launched_process, "_CODE", REFUSES.format(source=str(ROOT / "src")) + launched_process._CODE)
    monkeypatch.setattr(launched_process, "_found", {})
    monkeypatch.setattr(sandbox, "_held", {})
    out = shell.run("doctor", "-c", f'sandbox_tier="{tier}"').out
    assert out.count("are all killed at the same moment (not on this machine)") == 1
    assert "danger-full-access or `pid_namespace" not in out


@pytest.mark.parametrize(("kind", "count"), [("processes", 2), ("users", 3), ("", 1)])
def test_l5_what_is_said_of_programs_outside(kind: Any, count: int) -> None:
    sentences = list(_outside(Namespace(kind, "" if kind else "no")))
    assert len(sentences) == count
    assert any("sudo" in sentence for sentence in sentences) == (kind == "users")


def test_without_git_that_nothing_can_be_undone_is_a_problem(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """26-1: not where checkpoints are switched off."""
    monkeypatch.setenv("PATH", str(tmp_path))
    without = shell.run("doctor")
    assert "what tasks do to files cannot be undone: checkpoints need git" in without.out
    assert "install git, or checkpoints = false" in without.out
    assert "cannot be undone" not in shell.run("doctor", "-c", "checkpoints=false").out


def test_without_servers_nothing_is_said_of_them(shell: Shell) -> None:
    assert "MCP servers" not in shell.run("doctor").out


def test_an_agent_that_cannot_be_opened_is_a_problem_and_a_file_of_instructions_a_warning(shell: Shell) -> None:
    """Issue 19 (7): neither should be found out by the first task."""
    (shell.folder / "AGENTS.md").write_bytes(b"\0")
    set_up = ("-m", "scripted/tour", "-c", 'agents.reviewer.instructions_file="gone.md"')
    ran = shell.run("doctor", *set_up)
    assert ran.code == 1
    assert "the agent reviewer cannot be opened: agents.reviewer.instructions_file" in ran.out
    assert "warning project file" in ran.out
    (shell.folder / "gone.md").write_text("Here.")
    assert shell.run("doctor", *set_up, "-c", "project_instructions=false").code == 0
    ran = shell.run("doctor", *set_up, "-c", "agent=revewer")
    assert (ran.code, "did you mean reviewer?" in ran.out) == (1, True)
