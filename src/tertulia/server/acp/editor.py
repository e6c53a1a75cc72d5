"""The editor at the other end of ACP: what it can do, which MCP servers it brings, and its unsaved buffers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from acp import schema as s

from tertulia.events.clock import Clock, SystemClock
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.session_factory import ClientServer
from tertulia.tools.editor import MAX_TEXT_BYTES
from tertulia.version import __version__

PROTOCOL_VERSION = 1
"""The only one we speak; a client that speaks another is told so by this number."""
STEERING_METHOD = "_session/steering"
"""Adds a message to a prompt that runs."""


_UNNAMED = "ACP editor"


McpServer = s.HttpMcpServer | s.SseMcpServer | s.AcpMcpServer | s.McpServerStdio


class EditorCapabilities(msgspec.Struct, frozen=True):
    """What the client can do that we would use."""

    terminal_output: bool = False
    """Shows a command's output as it comes, as Zed does: an extension, said under `_meta`."""
    forms: bool = False
    """Has a person fill in what an MCP server asks for."""
    pages: bool = False
    """Sends a person to a page that an MCP server names."""
    reads: bool = False
    """Says what it has of a file, saved or not."""
    writes: bool = False
    """Changes a file that a person has open, and saves it."""
    terminal_login: bool = False
    """Runs the agent's program in a terminal for a login."""
    name: str = _UNNAMED
    """What it calls itself, with its version."""


def read_editor_capabilities(request: s.InitializeRequest) -> EditorCapabilities:
    """Read from `initialize`. Terminals of the editor are not used: see docs/acp.md."""
    able, client = request.client_capabilities, request.client_info
    name = _UNNAMED if client is None else f"{client.name} {client.version}"
    if able is None:
        return EditorCapabilities(name=name)
    asks, files, meta = able.elicitation, able.fs, able.field_meta or {}
    return EditorCapabilities(
        terminal_output=meta.get("terminal_output") is True,
        terminal_login=meta.get("terminal-auth") is True or (able.auth is not None and able.auth.terminal is True),
        forms=asks is not None and asks.form is not None,
        pages=asks is not None and asks.url is not None,
        reads=files is not None and files.read_text_file is True,
        writes=files is not None and files.write_text_file is True,
        name=name,
    )


KEY_METHOD, LOGIN_METHOD = "provider-key", "login"
"""The ids of the ways to authenticate: with a key that is there, and by typing one into a terminal."""


def auth_methods(editor: EditorCapabilities) -> list[dict[str, Any]]:
    """The ways to authenticate that this client can offer."""
    key = {
        "id": KEY_METHOD,
        "name": "Key of a model provider",
        "description": "Uses the key in the environment, or the one that `tertulia login` has kept",
    }
    login = {
        "id": LOGIN_METHOD,
        "name": "Log in at a model provider",
        "description": "Asks in a terminal which provider, and for its key",
        "type": "terminal",
        # Some clients replace the arguments of the agent by these, some add them: `tertulia acp login` is the same.
        "args": ["login"],
    }
    return [key, login] if editor.terminal_login else [key]


def initialize_result(editor: EditorCapabilities) -> dict[str, Any]:
    """The answer to `initialize`: version, capabilities, and ways to authenticate."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "tertulia", "title": "Tertulia", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "additionalDirectories": {},
                "fork": {},
                "resume": {},
                "close": {},
            },
        },
        "authMethods": auth_methods(editor),
        # How clients find the extension.
        "_meta": {"steering": {"supported": True}},
    }


def client_server(server: McpServer) -> ClientServer:
    """An MCP server of the editor's, in the fields of our own configuration."""
    match server:
        case s.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return ClientServer(server.name, {"command": server.command, "args": list(server.args), "env": env})
        case s.HttpMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return ClientServer(server.name, {"url": server.url, "http_headers": headers})
        case _:
            return ClientServer(
                server.name, f"the transport {server.type!r} is not spoken here; mcpCapabilities says so"
            )


BUFFER_TIMEOUT_S = 2.0
MAX_TIMEOUTS = 3
"""After so many unanswered questions in a row the editor is asked nothing for a while."""
PAUSE_S = 30.0


class EditorBuffers:
    """Of one session. Whether a path may be asked about is decided by the tool that asks."""

    def __init__(
        self, peer: Peer, *, can_write: bool, answer_s: float | None = None, clock: Clock | None = None
    ) -> None:
        self._peer = peer
        self._answer_s = BUFFER_TIMEOUT_S if answer_s is None else answer_s
        self._clock = clock or SystemClock()
        self._silent = 0
        self._rests_until = 0.0
        self.can_write = can_write
        self.session_id: str | None = None
        """The session's id in the editor, as soon as the editor knows it."""

    async def text(self, path: str) -> str | None:
        """The text as the editor has it; None where it does not say."""
        content = (await self._ask("fs/read_text_file", {"path": path}) or {}).get("content")
        return content if isinstance(content, str) and len(content) <= MAX_TEXT_BYTES else None

    async def write(self, path: str, text: str) -> None:
        """Have the editor write the text."""
        await self._ask("fs/write_text_file", {"path": path, "content": text})

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if self.session_id is None or (self._silent >= MAX_TIMEOUTS and self._clock.monotonic() < self._rests_until):
            return None
        before = self._silent
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._peer.ask(method, {"sessionId": self.session_id, **params})
        except TimeoutError:
            # Questions that waited at the same time count as one unanswered question.
            if self._silent == before:
                self._silent += 1
                self._rests_until = self._clock.monotonic() + PAUSE_S
            return None
        self._silent = 0
        return answer
