"""What each side can do: the editor as it said so, and we as it is."""

from __future__ import annotations

from typing import Any

import msgspec
from acp import schema as s

from tertulia.version import __version__

PROTOCOL_VERSION = 1
"""The only one we speak; whoever speaks another is told so by this number."""
STEERING = "_session/steering"
"""Puts a word into a prompt that runs."""


_UNNAMED = "ACP editor"


class Editor(msgspec.Struct, frozen=True):
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
    """Changes a file that somebody has open, and saves it."""
    name: str = _UNNAMED
    """What it calls itself, with its version."""


def read_editor(asked: s.InitializeRequest) -> Editor:
    """From its `initialize`. That it offers terminals of its own is no matter: see docs/acp.md."""
    able, client = asked.client_capabilities, asked.client_info
    name = _UNNAMED if client is None else f"{client.name} {client.version}"
    if able is None:
        return Editor(name=name)
    asks, files = able.elicitation, able.fs
    return Editor(
        terminal_output=(able.field_meta or {}).get("terminal_output") is True,
        forms=asks is not None and asks.form is not None,
        pages=asks is not None and asks.url is not None,
        reads=files is not None and files.read_text_file is True,
        writes=files is not None and files.write_text_file is True,
        name=name,
    )


def own_abilities() -> dict[str, Any]:
    """Our answer to `initialize`."""
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
        "authMethods": [],
        # How clients find the extension.
        "_meta": {"steering": {"supported": True}},
    }
