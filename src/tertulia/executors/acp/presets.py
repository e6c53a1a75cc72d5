"""ACP agents that need no table, as data. Each was driven with the version that its line names, but for `UNTESTED`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.executors.acp.definition import AcpDefinition, AcpSandboxMode, JsonServers, acp_from_wire
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.command.presets import CLAUDE, CODEX

ACP_PREFIX = "acp:"
"""Before the name of every one."""
_KEYS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
_ONLY_OURS = ("--allowed-mcp-server-names", "tertulia")
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def _program(command: tuple[str, ...], install: str, *variables: str, login: str = "") -> ExecutorDefinition:
    return ExecutorDefinition(
        command=command, install=install, login=login, env_vars=(*variables, *_KEYS), can_ask=True
    )


# 2.6.0. It asks when it wants to leave its sandbox.
_CODEX = AcpDefinition(
    program=ExecutorDefinition(
        command=("codex-acp",),
        env_vars=(*CODEX.env_vars, "CODEX_PATH"),
        home=CODEX.home,
        can_ask=True,
        install="npm install -g @agentclientprotocol/codex-acp",
        login="codex login",
    ),
    sandbox={
        "read_only": AcpSandboxMode(mode="read-only"),
        "workspace_write": AcpSandboxMode(mode="workspace-write"),
        "danger_full_access": AcpSandboxMode(mode="agent-full-access"),
    },
    config=("CODEX_CONFIG", {"developer_instructions": "{text}"}),
    # Whatever it is told: they are started before its first session.
    starts_own_servers=True,
)

_CLAUDE_SANDBOX = {"enabled": True, "autoAllowBashIfSandboxed": True, "allowUnsandboxedCommands": False}

# 0.99.1. It asks before it changes anything; commands run in its own sandbox.
_CLAUDE = AcpDefinition(
    program=ExecutorDefinition(
        command=("claude-agent-acp",),
        env_vars=(*CLAUDE.env_vars, "CLAUDE_CODE_EXECUTABLE"),
        home=CLAUDE.home,
        can_ask=True,
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        login="claude auth login",
    ),
    sandbox={
        "read_only": AcpSandboxMode(
            mode="default", meta={"claudeCode": {"options": {"tools": ["Read", "Glob", "Grep"]}}}
        ),
        "workspace_write": AcpSandboxMode(
            mode="default", meta={"claudeCode": {"options": {"sandbox": _CLAUDE_SANDBOX}}}
        ),
        "danger_full_access": AcpSandboxMode(mode="default"),
    },
    meta={"systemPrompt": {"append": "{text}"}, "claudeCode": {"options": {"strictMcpConfig": True}}},
)

ACP_PRESETS: Mapping[str, AcpDefinition] = {
    "codex": _CODEX,
    "claude": _CLAUDE,
    # 1.18.33
    "opencode": AcpDefinition(
        program=_program(("opencode", "acp"), "npm install -g opencode-ai", *_OPENAI, login="opencode auth login"),
        own_servers=JsonServers(
            variable="OPENCODE_CONFIG_CONTENT", table="mcp", folder="opencode", project=".opencode",
            files=("opencode.json", "opencode.jsonc"), user_files=("config.json",),
        ),
    ),
    # 0.61.0. In a directory that it does not trust it starts no MCP server, not even ours; of others it is kept.
    "gemini": AcpDefinition(
        program=replace(
            _program(
                ("gemini", "--acp", *_ONLY_OURS), "npm install -g @google/gemini-cli", "GEMINI_API_KEY",
                "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", login="gemini",
            ),
            env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        )
    ),
    # 0.24.4
    "qwen": AcpDefinition(
        program=_program(("qwen", "--acp", *_ONLY_OURS), "npm install -g @qwen-code/qwen-code", *_OPENAI, login="qwen")
    ),
    # Of 0.10 and 3.0 only the documentation was read.
    "fast-agent": AcpDefinition(program=_program(("fast-agent-acp",), "pip install fast-agent-acp", *_OPENAI)),
    "vibe": AcpDefinition(program=_program(("vibe-acp",), "pip install mistral-vibe", "MISTRAL_API_KEY")),
}  # fmt: skip


UNTESTED = frozenset({"acp:fast-agent", "acp:vibe"})
"""Those that no test of ours has run."""


def acp_agents_from_wire(tables: Mapping[str, Any]) -> dict[str, AcpDefinition]:
    """All that there are, by backend: the presets as their tables change them, and the user's own."""
    found = {
        ACP_PREFIX + name: acp_from_wire(name, tables.get(name, {}), preset) for name, preset in ACP_PRESETS.items()
    }
    for name, table in tables.items():
        if name in ACP_PRESETS:
            continue
        if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise InvalidParamsError(f"acp.{name:.80}: a name has letters, digits, `-` and `_` only")
        found[ACP_PREFIX + name] = acp_from_wire(name, table, None)
    return found
