"""The definition of an MCP server: how it is reached, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Approval = Literal["auto", "prompt", "approve"]
Share = Literal["conversation", "session", "host"]
ClientSecretMethod = Literal["client_secret_basic", "client_secret_post"]
Origin = Literal["user", "project", "code", "provider"]
"""Where the definition comes from. Files of a project may be written by other people than the user."""


class Stdio(msgspec.Struct, frozen=True, kw_only=True, tag="stdio"):
    """A program that is started."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Variables of its environment, with their values."""
    env_vars: tuple[str, ...] = ()
    """Names of variables that it gets from our environment, besides `launch.DEFAULT_VARIABLES`."""
    cwd: str | None = None

    def __repr__(self) -> str:
        # No value of it: arguments and variables hold keys.
        return f"Stdio({self.command!r}, env=<{', '.join(self.env)}>)"


class OAuthOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in to an address by OAuth. Nearly every server needs none of it."""

    client_id: str | None = None
    """What we are called there; None: we register ourselves."""
    client_secret_env_var: str | None = None
    """The variable with the secret that belongs to it."""
    client_secret_method: ClientSecretMethod = "client_secret_basic"
    client_metadata_url: str | None = None
    """An address with a document about us, where the authorization server takes one in place of a registration."""
    callback_port: int = 0
    """Where the browser comes back to on this machine; 0: any free port."""
    scopes: tuple[str, ...] = ()
    """What to ask for; empty: what the server names."""


class Http(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """An endpoint that runs already."""

    url: str
    bearer_token_env_var: str | None = None
    http_headers: Mapping[str, str] = {}
    env_http_headers: Mapping[str, str] = {}
    """Headers whose values are in variables of our own environment."""
    oauth: OAuthOptions = OAuthOptions()

    def __repr__(self) -> str:
        # Not the address: some carry a key.
        return f"Http(headers=<{', '.join((*self.http_headers, *self.env_http_headers))}>)"


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A configured server. The fields have the names of `[mcp_servers.NAME]`, with `_s` for `_sec`."""

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
    """None: it runs outside any sandbox, with the rights of the user."""
    network: bool = True
    """Has an effect in a sandbox only."""
    pid_namespace: bool = True
    """Outside a sandbox: a PID namespace of its own, where possible, so that its processes end with this one."""
    roots: tuple[str, ...] | None = None
    """The roots that it gets; None: the workspace of the conversation, if it has one."""
    concurrency: int | None = None
    """How many calls of all conversations it gets at once."""
    idle_timeout_s: float | None = 600.0
    """How long it runs when no view uses it."""
    elicitation: bool = True
    """May ask the user, where the conversation's policy lets it."""
    sampling: bool = False
    """May ask the model, after an approval."""
    origin: Origin = "user"
    source: str = ""
    """The file of the definition, if there is one."""

    def offers(self, tool: str) -> bool:
        """Whether the configuration lets a tool of that name through."""
        if tool in self.disabled_tools:
            return False
        return self.enabled_tools is None or tool in self.enabled_tools
