"""The ACP agents that are known without a table, and all agents of a session's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tertulia.executors.acp.definition import AcpDefinition, AcpSandboxMode, acp_from_wire
from tertulia.executors.acp.own_servers import JsonServers, ServersByArgument
from tertulia.executors.command.definition import (
    CLAUDE,
    CODEX,
    NETWORK_VARIABLES,
    AgentHome,
    ExecutorDefinition,
    check_backend_name,
)

ACP_PREFIX = "acp:"
"""The prefix of the name of every ACP backend."""
_ONLY_OURS = ("--allowed-mcp-server-names", "tertulia")
_COPILOT = (
    *(
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_HOST",
        "COPILOT_HOME",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
    ),
    *(
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
    ),
    *("COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_MODEL_ID", "COPILOT_PROVIDER_WIRE_MODEL"),
)
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def _program(
    command: tuple[str, ...], install: str, *variables: str, login: str = "", proved: str = ""
) -> ExecutorDefinition:
    return ExecutorDefinition(
        command=command,
        install=install,
        login=login,
        env_vars=(*variables, *NETWORK_VARIABLES),
        can_ask=True,
        proved=proved,
    )


def _adapter(
    agent: ExecutorDefinition, command: str, path_variable: str, login: str, proved: str
) -> ExecutorDefinition:
    """The program by which an agent that does not speak ACP itself does; the variable names the agent's own program."""
    return ExecutorDefinition(
        command=(command,),
        env_vars=(*agent.env_vars, path_variable),
        home=agent.home,
        can_ask=True,
        install=f"npm install -g @agentclientprotocol/{command}",
        login=login,
        proved=proved,
    )


# It asks before it leaves its sandbox.
_CODEX = AcpDefinition(
    program=_adapter(CODEX, "codex-acp", "CODEX_PATH", login="codex login", proved="2.6.0"),
    sandbox={
        "read_only": AcpSandboxMode(mode="read-only"),
        "workspace_write": AcpSandboxMode(mode="workspace-write"),
        "danger_full_access": AcpSandboxMode(mode="agent-full-access"),
    },
    config=("CODEX_CONFIG", {"developer_instructions": "{text}"}),
    # Its MCP servers start before its first session, whatever the session's parameters say.
    starts_own_servers=True,
)

_CLAUDE_SANDBOX = {"enabled": True, "autoAllowBashIfSandboxed": True, "allowUnsandboxedCommands": False}

# It asks before it changes anything; commands run in its own sandbox.
_CLAUDE = AcpDefinition(
    program=_adapter(CLAUDE, "claude-agent-acp", "CLAUDE_CODE_EXECUTABLE", login="claude auth login", proved="0.99.1"),
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
    "opencode": AcpDefinition(
        program=_program(("opencode", "acp"), "npm install -g opencode-ai", *_OPENAI,
                         login="opencode auth login", proved="1.18.33"),
        own_servers=JsonServers(
            variable="OPENCODE_CONFIG_CONTENT", table="mcp", folder="opencode", project=".opencode",
            files=("opencode.json", "opencode.jsonc"), user_files=("config.json",),
        ),
    ),
    # In an untrusted directory it starts no MCP server, not even ours, so the directory is declared
    # trusted; arguments keep it from other servers.
    "gemini": AcpDefinition(
        program=replace(
            _program(
                ("gemini", "--acp", *_ONLY_OURS), "npm install -g @google/gemini-cli", "GEMINI_API_KEY",
                "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", login="gemini",
                proved="0.61.0",
            ),
            env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ),
        forgets_stopped=True,
    ),
    "qwen": AcpDefinition(
        program=_program(("qwen", "--acp", *_ONLY_OURS), "npm install -g @qwen-code/qwen-code", *_OPENAI, login="qwen",
                         proved="0.24.4")
    ),
    # It ignores servers of a session's parameters that it would have to start, and says so in its log
    # only: ours is an argument.
    "copilot": AcpDefinition(
        program=replace(
            _program(
                ("copilot", "--acp", "--disable-builtin-mcps"), "npm install -g @github/copilot", *_COPILOT,
                login="copilot login", proved="1.0.102",
            ),
            home=AgentHome(variable="COPILOT_HOME", folder=".copilot", files=("config.json", "settings.json")),
        ),
        server_args=(
            "--additional-mcp-config",
            '{"mcpServers": {"tertulia": {"type": "local", "command": {command}, "args": {args}, "tools": ["*"]}}}',
        ),
        own_servers_by_argument=ServersByArgument(
            option="--disable-mcp-server", variable="COPILOT_HOME", folder=".copilot", file="mcp-config.json",
            project_files=(".mcp.json", ".github/mcp.json", ".vscode/mcp.json"), table="mcpServers",
        ),
    ),
    # Versions 0.10 and 3.0: written from their documentation only.
    "fast-agent": AcpDefinition(program=_program(("fast-agent-acp",), "pip install fast-agent-acp", *_OPENAI)),
    "vibe": AcpDefinition(program=_program(("vibe-acp",), "pip install mistral-vibe", "MISTRAL_API_KEY")),
}  # fmt: skip


UNTESTED = frozenset({"acp:fast-agent", "acp:vibe"})
"""Presets that no test of ours has run."""


def acp_agents_from_wire(tables: Mapping[str, Any]) -> dict[str, AcpDefinition]:
    """All ACP agents by the names of their backends: the presets as changed by their tables, and the user's own."""
    agents = {
        ACP_PREFIX + name: acp_from_wire(name, tables.get(name, {}), preset) for name, preset in ACP_PRESETS.items()
    }
    for name, table in tables.items():
        if name in ACP_PRESETS:
            continue
        check_backend_name("acp", name)
        agents[ACP_PREFIX + name] = acp_from_wire(name, table, None)
    return agents
