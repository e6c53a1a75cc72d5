"""A server as a project's file defines it. The user may trust exactly this content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.dot_mcp_json import server_table_of, unknown_keys, variables_in
from tertulia.mcp.config.launch import PUBLIC_HEADERS, is_secret
from tertulia.mcp.config.server_table import server_from_wire

_WIDENING: Mapping[str, Any] = {
    "approval": "approve",
    "default_tools_approval_mode": "approve",
    "required": True,
    "sampling": True,
    "share": "host",
}
"""Settings by which a trusted server gets more than being started."""


class ProjectServer(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `.mcp.json`, or one table of a project's `config.toml`. No variable in it is expanded."""

    name: str
    entry: Any
    """As it was parsed: JSON or TOML."""
    source: str
    """The path of the project's file."""
    folder: str
    """The base of a relative `cwd`, and the directory it is started in if it names none."""
    form: Literal["json", "toml"]

    def __repr__(self) -> str:
        return f"ProjectServer({self.name!r}, {self.source!r})"

    @property
    def digest(self) -> str:
        """Of the whole entry and its file: any change makes it another server (C2)."""
        content = {"name": self.name, "entry": self.entry, "source": self.source}
        # Not msgspec, which encodes inf and nan of TOML alike. Dates are TOML's too.
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()

    @property
    def _table(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.entry) if isinstance(self.entry, dict) else {}

    @property
    def shown(self) -> Any:
        """The entry for the user to judge; only keys and passwords in it are hidden."""
        return _masked(self.entry)

    @property
    def kind(self) -> Literal["stdio", "http", ""]:
        """Whether it is a program or an address, by its entry."""
        return "http" if "url" in self._table else "stdio" if "command" in self._table else ""

    @property
    def variables(self) -> list[str]:
        """Variables of our environment that it would get, by its entry."""
        headers = self._table.get("env_http_headers")
        named = [
            *_texts(self._table.get("env_vars")),
            *_texts([self._table.get("bearer_token_env_var")]),
            *_texts(list(cast("dict[str, Any]", headers).values()) if isinstance(headers, dict) else []),
        ]
        return sorted({*named, *(variables_in(self._table) if self.form == "json" else ())})

    @property
    def is_confined(self) -> bool:
        """Whether it asks to run in a sandbox, or does not run here at all."""
        return self.kind == "http" or str(self._table.get("sandbox", "none")).replace("-", "_") in (
            "read_only",
            "workspace_write",
        )

    @property
    def widening(self) -> list[str]:
        """Keys that ask for more than an untrusted server gets."""
        return [key for key, value in _WIDENING.items() if self._table.get(key) == value]

    @property
    def foreign(self) -> list[str]:
        """Keys that only other hosts use."""
        return unknown_keys(self._table) if self.form == "json" else []

    def definition(self, variables: Mapping[str, str]) -> ServerDefinition:
        """The definition with variables expanded: only for a trusted one. InvalidParamsError names file and server."""
        try:
            label = f"mcpServers.{self.name}"
            table = server_table_of(label, self.entry, variables) if self.form == "json" else self.entry
            folder = Path(self.folder)
            definition = server_from_wire(self.name, table, origin="project", source=self.source, folder=folder)
        except InvalidParamsError as error:
            raise InvalidParamsError(f"{self.source}: {error.message}") from None
        transport = definition.transport
        if isinstance(transport, Stdio) and transport.cwd is None:
            transport = msgspec.structs.replace(transport, cwd=self.folder)
        return msgspec.structs.replace(definition, transport=transport)


def _texts(value: Any) -> list[str]:
    return [item for item in cast("list[Any]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _masked(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    table = dict(cast("dict[str, Any]", entry))
    for key in ("env", "headers", "http_headers"):
        if isinstance(values := table.get(key), dict):
            named = cast("dict[str, Any]", values).items()
            table[key] = {name: _mask(name, value, header=key != "env") for name, value in named}
    if isinstance(args := table.get("args"), list):
        table["args"] = _masked_arguments(cast("list[Any]", args))
    return table


def _mask(name: str, value: Any, *, header: bool) -> Any:
    # `${TOKEN}` names a secret and is shown. Values are hidden by their name only: what merely looks like a key may be
    # what the program is to load.
    if not isinstance(value, str) or "${" in value:
        return value
    hidden = name.lower() not in PUBLIC_HEADERS if header else is_secret(name)
    return f"<{len(value)} characters, not shown>" if hidden else value


def _masked_arguments(args: list[Any]) -> list[Any]:
    shown: list[Any] = []
    flag = ""
    for argument in args:
        name, equals, value = str(argument).partition("=")
        if flag and not equals:
            shown.append(_mask(flag, argument, header=False))
        elif equals and name.startswith("-"):
            shown.append(f"{name}={_mask(name, value, header=False)}")
        else:
            shown.append(argument)
        flag = name if name.startswith("-") and not equals else ""
    return shown
