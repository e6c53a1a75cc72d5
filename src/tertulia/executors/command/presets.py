"""Agents that need no table: `codex` and `claude`, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.executors.command.definition import (
    RESERVED,
    AgentHome,
    ExecutorDefinition,
    SettingsLayer,
    executor_from_wire,
)

_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
"""What an agent needs to reach its model from where we are."""

CODEX = ExecutorDefinition(
    command=("codex", "exec", "--json", "--skip-git-repo-check"),
    start=("-",),
    resume_with=("resume", "{id}", "-"),
    output="codex-jsonl",
    sandbox={
        "read_only": ("--sandbox", "read-only"),
        "workspace_write": ("--sandbox", "workspace-write"),
        "danger_full_access": ("--sandbox", "danger-full-access"),
    },
    network=("-c", "sandbox_workspace_write.network_access=true"),
    no_shell=("-c", "features.shell_tool=false"),
    no_search=("-c", 'web_search="disabled"'),
    root=("--add-dir", "{root}"),
    # It reads no file for that but its settings.
    system=("--profile", "{layer}"),
    hears_once=True,
    # An empty table would not do: it is merged with the one in the user's file.
    servers=("-c", "mcp_servers.{name}.enabled=false"),
    # What may be called is asked at our side of it.
    server=(
        *("-c", "mcp_servers.tertulia.command={command}", "-c", "mcp_servers.tertulia.args={args}"),
        *("-c", 'mcp_servers.tertulia.default_tools_approval_mode="approve"'),
    ),
    env_vars=("CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL", *_NETWORK),
    home=AgentHome(
        variable="CODEX_HOME",
        folder=".codex",
        files=("auth.json", "config.toml"),
        servers="config.toml",
        layer=SettingsLayer(file="{name}.config.toml", key="developer_instructions", options=("-p", "--profile")),
    ),
    install="npm install -g @openai/codex",
    login="codex login",
)

_SANDBOXED = '{"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false}}'
"""Commands run in Claude's own sandbox or, where it has none, are denied: nobody is there to be asked."""

CLAUDE = ExecutorDefinition(
    command=("claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
    resume_with=("--resume", "{id}"),
    output="claude-stream-json",
    sandbox={
        "read_only": ("--permission-prompts", "none", "--tools", "Read,Glob,Grep"),
        "workspace_write": (
            *("--permission-prompts", "none", "--permission-mode", "acceptEdits", "--settings", _SANDBOXED),
        ),
        "danger_full_access": ("--dangerously-skip-permissions",),
    },
    no_shell=("--disallowedTools", "Bash"),
    no_search=("--disallowedTools", "WebSearch"),
    root=("--add-dir", "{root}"),
    # What it was told first would otherwise be what it is told for ever.
    system=("--append-system-prompt-file", "{file}", "--system-prompt-snapshot", "off"),
    servers=("--strict-mcp-config",),
    server=(
        *("--mcp-config", '{"mcpServers": {"tertulia": {"command": {command}, "args": {args}}}}'),
        *("--allowedTools", "mcp__tertulia"),
    ),
    env_vars=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        *("CLAUDE_CONFIG_DIR", *_NETWORK),
    ),
    home=AgentHome(variable="CLAUDE_CONFIG_DIR", folder=".claude", files=(".credentials.json", "settings.json")),
    install="npm install -g @anthropic-ai/claude-code",
    login="claude auth login",
)

PRESETS: Mapping[str, ExecutorDefinition] = {"codex": CODEX, "claude": CLAUDE}
COMMAND_PREFIX = "command:"
"""Before the name of any other, so that no name of a user's takes the place of one of ours."""


def executors_from_wire(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ExecutorDefinition]:
    """All that there are, by backend: the presets as their tables change them, and the user's own."""
    found = {name: executor_from_wire(name, tables.get(name, {}), preset) for name, preset in PRESETS.items()}
    for name, table in tables.items():
        if name in PRESETS or name == RESERVED:
            continue
        if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise InvalidParamsError(f"executors.{name:.80}: a name has letters, digits, `-` and `_` only")
        found[COMMAND_PREFIX + name] = executor_from_wire(name, table, None)
    return found
