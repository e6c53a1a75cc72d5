"""Agents that we did not write, as `make agents` installed them, and how each is pointed at a provider on loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

AGENTS = Path(__file__).parents[2] / ".venv" / "agents" / "node_modules"

_ELSEWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
"""Nothing goes anywhere but to loopback, whatever an agent has in mind."""


class RealAgent(msgspec.Struct, frozen=True):
    """One program."""

    backend: str
    where: str
    """A pattern below the installed packages."""
    settle: Callable[[Path, str], dict[str, Any]]
    """Writes what it needs into a home; gives the rest of its table."""

    def program(self) -> str:
        """Where it is. Skips the test, and says why, where it is not."""
        found = sorted(AGENTS.glob(self.where))
        if not found:
            pytest.skip(f"{self.backend} is not installed; `make agents` fetches it")
        return str(found[0])

    def table(self, home: Path, url: str) -> dict[str, Any]:
        """Its table in the settings: the preset, with the program that is installed here."""
        from tertulia.executors.command.definition import PRESETS

        command = [self.program(), *PRESETS[self.backend].command[1:]]
        return {"command": command, **self.settle(home, url)}


def _codex(home: Path, url: str) -> dict[str, Any]:
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(
        'model = "mock"\nmodel_provider = "mock"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n'
        f'[model_providers.mock]\nname = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    )
    return {"env": _ELSEWHERE}


def _claude(home: Path, url: str) -> dict[str, Any]:
    home.mkdir(parents=True, exist_ok=True)
    return {
        "env": {
            **_ELSEWHERE,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-mock",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        "args": ["--model", "claude-sonnet-4-5"],
    }


REAL: Mapping[str, RealAgent] = {
    "codex": RealAgent("codex", "@openai/codex-*/vendor/*/bin/codex", _codex),
    "claude": RealAgent("claude", "@anthropic-ai/claude-code-*/claude", _claude),
}
