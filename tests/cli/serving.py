"""Servers for the command line: written into the user's file, or into a project's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertulia.cli.mcp.config_edit import add_table
from tests.cli.running import Shell


def config_of(shell: Shell) -> Path:
    """The user's file."""
    return shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"


def configure(shell: Shell, name: str, argv: Sequence[str] = ("server",), **fields: Any) -> None:
    """Give the user a server; `url` among the fields takes the place of a command."""
    table = fields if "url" in fields else {"command": argv[0], "args": list(argv[1:]), **fields}
    add_table(config_of(shell), "mcp_servers", name, table)


def dot_mcp(shell: Shell, **servers: Any) -> Path:
    """Give the project servers; a list is a command."""
    entries = {n: {"command": e[0], "args": list(e[1:])} if isinstance(e, tuple) else e for n, e in servers.items()}
    path = shell.folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    return path
