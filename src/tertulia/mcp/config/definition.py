"""A configured MCP server: how it is reached, and what it may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Approval = Literal["auto", "prompt", "approve"]
Share = Literal["conversation", "session", "host"]
Origin = Literal["user", "project", "code", "provider"]
"""Who says that there is such a server. A project's files are written by strangers."""


class Stdio(msgspec.Struct, frozen=True, kw_only=True, tag="stdio"):
    """A program that we start."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Variables with their values."""
    env_vars: tuple[str, ...] = ()
    """Variables that it gets from our own environment, by name. Nothing else of ours reaches it but the usual few."""
    cwd: str | None = None

    def __repr__(self) -> str:
        # No value of it: arguments and variables hold keys.
        return f"Stdio({self.command!r}, env=<{', '.join(self.env)}>)"


class Http(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """An endpoint that runs already."""

    url: str
    bearer_token_env_var: str | None = None
    http_headers: Mapping[str, str] = {}
    env_http_headers: Mapping[str, str] = {}
    """Headers whose values are in variables of our own environment."""

    def __repr__(self) -> str:
        # Not the address: some carry a key.
        return f"Http(headers=<{', '.join((*self.http_headers, *self.env_http_headers))}>)"


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Names are those of `[mcp_servers.NAME]`; `_sec` is `_s` here."""

    name: str
    transport: Stdio | Http
    enabled: bool = True
    required: bool = False
    """A session does not start without it."""
    startup_timeout_s: float = 30.0
    tool_timeout_s: float = 300.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    approval: Approval = "auto"
    parallel: bool = False
    share: Share = "session"
    start: Literal["eager", "lazy"] = "eager"
    sandbox: Literal["read_only", "workspace_write"] | None = None
    """None: it runs outside any sandbox, with all that the user may do."""
    network: bool = True
    """Counts in a sandbox only."""
    pid_namespace: bool = True
    """Counts outside a sandbox only: among its own processes alone, where that can be had, so that all end with us."""
    roots: tuple[str, ...] | None = None
    """Directories that it is told of; None: the workspace of the conversation, where there is one."""
    concurrency: int | None = None
    """Calls of all conversations that it gets at once."""
    idle_timeout_s: float | None = 600.0
    """How long it stays when no view uses it."""
    elicitation: bool = True
    """May ask a person, where the conversation's policy lets somebody be asked."""
    sampling: bool = False
    """May ask the model, after somebody has allowed it."""
    origin: Origin = "user"
    source: str = ""
    """The file that it stands in, if one."""

    def offers(self, tool: str) -> bool:
        """Whether the configuration lets a tool of that name through."""
        if tool in self.disabled_tools:
            return False
        return self.enabled_tools is None or tool in self.enabled_tools
