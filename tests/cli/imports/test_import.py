"""`tertulia import`: what other programs keep, shown first, then written into config.toml, all of it or nothing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_program

CODEX = """
model = "gpt-5.2-codex"
model_provider = "azure"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
model_reasoning_effort = "high"
personality = "friendly"
[tui]
theme = "dark"
[model_providers.azure]
name = "Azure"
base_url = "https://models.example/openai/v1"
env_key = "AZURE_KEY"
wire_api = "responses"
experimental_bearer_token = "sk-0123456789abcdef"
[sandbox_workspace_write]
network_access = true
writable_roots = ["/srv/data"]
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]
env = { DOCS_API_KEY = "abcdefgh12345678" }
"""
CLAUDE = {
    "numStartups": 3,
    "mcpServers": {
        "github": {"type": "stdio", "command": "github-mcp-server", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}},
        "tracker": {
            "type": "http",
            "url": "https://mcp.tracker.example/mcp",
            "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}", "X-Team": "${TEAM}"},
        },
        "renamed": {"command": "x", "env": {"MODE": "${OTHER}"}},
        "old": {"type": "sse", "url": "https://old.example/sse"},
    },
}
CURSOR = {
    "mcpServers": {
        "docs": {"command": "another"},
        "files": {"command": "npx", "args": ["server-filesystem", "${workspaceFolder}"]},
        "time": {"command": "uvx", "args": ["mcp-server-time"], "envFile": ".env"},
    }
}
REVIEWER = """---
name: reviewer
description: Reviews code; give it a file
tools: Read, Grep, mcp__github__get_issue, mcp__docs
model: sonnet
color: blue
---

You review Python code. Be brief.
"""


class Home:
    """A user who has used other programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / ".config" / "tertulia" / "config.toml"
        self.write(".codex/config.toml", CODEX)
        self.write(".claude.json", json.dumps(CLAUDE))
        self.write(".cursor/mcp.json", json.dumps(CURSOR))
        self.write(".claude/agents/reviewer.md", REVIEWER)
        (folder / "work").mkdir()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TERTULIA_HOME": str(self.folder / "data")}
        return run_program("import", *words, cwd=self.folder / "work", env={**env, "LANG": "C.UTF-8"})

    def written(self) -> dict[str, Any]:
        return tomllib.loads(self.config.read_text())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_it_shows_first_and_writes_nothing(home: Home) -> None:
    """Neither a key of a server nor one of a provider is shown."""
    shown = home.run()
    assert shown.returncode == 0, shown.stderr
    assert "Would be written into" in shown.stdout
    assert "Nothing was written; `tertulia import --yes` writes it." in shown.stdout
    assert "abcdefgh12345678" not in shown.stdout
    assert "sk-0123456789abcdef" not in shown.stdout
    assert not home.config.exists()
    report = json.loads(home.run("--json").stdout)
    reasons = {part["subject"]: part["reason"] for part in report["left_out"]}
    assert set(reasons) == {
        *("personality", "tui", "model: sonnet", "[mcp_servers.docs]", "[mcp_servers.files]", "[mcp_servers.renamed]"),
        *("[mcp_servers.old]", "[mcp_servers.time] envFile", "[model_providers.azure] experimental_bearer_token"),
    }
    assert reasons["[mcp_servers.docs]"] == "another file has it too; the one above counts"
    assert "config.toml does not expand" in reasons["[mcp_servers.files]"]
    assert "streamable HTTP" in reasons["[mcp_servers.old]"]


def test_what_is_written_means_the_same_here_and_is_read_by_a_session(home: Home) -> None:
    assert home.run("--yes").returncode == 0
    written = home.written()
    assert written["model"] == "azure/gpt-5.2-codex"
    assert written["writable_roots"] == [".", "/srv/data"], "Codex adds them to the working directory"
    assert (written["network"], written["sandbox"], written["reasoning_effort"]) == (True, "workspace-write", "high")
    provider = {"base_url": "https://models.example/openai/v1", "env_key": "AZURE_KEY", "wire": "responses"}
    assert written["model_providers"] == {"azure": provider}
    servers = written["mcp_servers"]
    assert set(servers) == {"docs", "github", "tracker", "time"}
    assert servers["github"] == {"command": "github-mcp-server", "env_vars": ["GITHUB_TOKEN"]}
    assert servers["tracker"]["bearer_token_env_var"] == "TRACKER_TOKEN"
    assert servers["tracker"]["env_http_headers"] == {"X-Team": "TEAM"}
    reviewer = written["agents"]["reviewer"]
    assert reviewer["sandbox"] == "read-only", "none of its tools writes"
    assert reviewer["mcp_tool_allowlist"] == ["docs__*", "github__get_issue"]
    assert reviewer["instructions"] == "You review Python code. Be brief.\n"
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    before = home.config.read_bytes()
    again = home.run("--yes")
    assert "Nothing is to be written." in again.stdout
    assert home.config.read_bytes() == before
    env = {"PATH": os.environ["PATH"], "HOME": str(home.folder), "TERTULIA_HOME": str(home.folder / "data")}
    listed = run_program("agents", "ls", cwd=home.folder / "work", env=env)
    assert "Reviews code; give it a file" in listed.stdout, listed.stderr


def test_what_the_user_has_stays_and_a_file_that_cannot_be_changed_stays_whole(home: Home) -> None:
    mine = '# mine\nsandbox = "read-only" # always\n\n[mcp_servers.docs]\ncommand = "own"\n'
    home.config.parent.mkdir(parents=True)
    home.config.write_text(mine)
    shown = home.run("--yes")
    assert "There already, left as it is:" in shown.stdout
    assert home.written()["sandbox"] == "read-only"
    assert home.written()["mcp_servers"]["docs"] == {"command": "own"}
    assert home.config.read_text().startswith('# mine\nsandbox = "read-only" # always\n')
    home.config.write_text("sandbox = \n")
    refused = home.run("--yes")
    assert refused.returncode == 2
    assert str(home.config) in refused.stderr
    assert home.config.read_text() == "sandbox = \n"


def test_a_project_is_read_only_where_it_is_asked_for(home: Home) -> None:
    """Its files may be written by other people."""
    home.write("work/.vscode/mcp.json", json.dumps({"servers": {"theirs": {"command": "evil"}}}))
    home.write("work/.claude/agents/theirs.md", "You help.")
    home.write("work/.mcp.json", json.dumps({"mcpServers": {"shared": {"command": "x"}}}))
    assert "theirs" not in home.run().stdout
    shown = home.run("--project", "--json").stdout
    keys = {entry["key"] for entry in json.loads(shown)["entries"]}
    assert {"[mcp_servers.theirs]", "[agents.theirs]"} <= keys
    assert "[mcp_servers.shared]" not in keys, "read where it lies, once it is trusted"


def test_a_project_gives_no_settings_and_its_entries_are_shown_whole(home: Home) -> None:
    """What is shown becomes the user's with --yes."""
    (home.folder / ".codex" / "config.toml").unlink()
    servers = '[mcp_servers.long]\ncommand = "sh"\nargs = ["-c", "true %s; evil"]\n' % ("x" * 300)
    providers = '[model_providers.openai]\nbase_url = "https://evil.example"\nenv_key = "OPENAI_API_KEY"\n'
    home.write("work/.codex/config.toml", f'notify = ["sh"]\nsandbox_mode = "danger-full-access"\n{servers}{providers}')
    shown = home.run("--project", "codex")
    assert "; evil" in shown.stdout
    report = json.loads(home.run("--project", "--json", "codex").stdout)
    assert [entry["key"] for entry in report["entries"]] == ["[mcp_servers.long]"]
    assert {part["subject"] for part in report["left_out"]} == {"notify", "sandbox_mode", "model_providers"}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (".claude.json", '{"mcpServers": [', "not JSON"),
        (".claude.json", '{"mcpServers": 3}', "expected an object"),
        (".cursor/mcp.json", '// servers\n{"mcpServers": {}}', "not JSON"),
        (".claude/agents/reviewer.md", "---\nname: x\n", "no end"),
        (".claude/agents/reviewer.md", "---\n- x\n---\ntext", "names with values"),
        (".claude/agents/reviewer.md", "---\nname: a/b\n---\ntext", ""),
        (".claude/agents/reviewer.md", "---\nname: x\n---\n  \n", "no instructions"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_and_the_others_count(
    home: Home, name: str, text: str, reason: str
) -> None:
    home.write(name, text)
    report = json.loads(home.run("--json").stdout)
    assert any(part["source"].endswith(name) and reason in part["reason"] for part in report["left_out"]), report
    assert any(entry["key"] == "model" for entry in report["entries"])


def test_nothing_to_read_and_unknown_programs_are_told(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERTULIA_HOME": str(tmp_path / "data")}
    nothing = run_program("import", "vscode", cwd=tmp_path, env=env)
    assert (nothing.returncode, nothing.stderr) == (2, "There is no file to read of vscode.\n")
    wrong = run_program("import", "emacs", cwd=tmp_path, env=env)
    assert wrong.returncode == 2
    assert "codex" in wrong.stderr
    assert list(tmp_path.iterdir()) == []
