"""MCP servers of Claude Code, Cursor and VS Code, which write them into files of JSON.

Our config.toml expands no variables: `${NAME}` becomes the name of a variable that is passed on, where the server gets
it under the same name or as a header, and a server that uses one anywhere else is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tertulia.cli.imports.entries import Findings
from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.project_server import read_server_file, server_table_of, unknown_keys

_WHOLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}\Z")
_BEARER = re.compile(r"Bearer \$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}\Z")
_MAX_BYTES = 16 * 1024 * 1024
"""Claude Code keeps its history in the file of its servers."""


def read_servers(path: Path, key: str, found: Findings) -> None:
    """The servers under that key of a file, if it is there."""
    source = str(path)
    try:
        servers = read_server_file(path, key=key, max_bytes=_MAX_BYTES)
    except InvalidParamsError as error:
        found.files.append(source)
        found.leave_out(source, "the whole file", error.message.removeprefix(f"{source}: "))
        return
    if servers is None:
        return
    found.files.append(source)
    for name, entry in servers.items():
        title = f"[mcp_servers.{name}]"
        for foreign in unknown_keys(entry):
            found.leave_out(source, f"{title} {foreign}", "it is not known here")
        try:
            table = _without_variables(server_table_of(name, entry, None))
        except InvalidParamsError as error:
            found.leave_out(source, title, error.message)
        else:
            found.add("mcp_servers", name, table, source)


def _without_variables(table: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in table.items() if key not in ("env", "http_headers")}
    for key, value in result.items():
        if "${" in str(value):
            raise InvalidParamsError(f"{key} has a variable in it, which config.toml does not expand; write its value")
    env, headers = _texts(table.get("env")), _texts(table.get("http_headers"))
    passed = [name for name, value in env.items() if (match := _WHOLE.match(value)) and match[1] == name]
    plain = {name: value for name, value in env.items() if name not in passed}
    _check_plain("env", plain)
    if passed:
        result["env_vars"] = passed
    if plain:
        result["env"] = plain
    return {**result, **_headers(headers)}


def _headers(headers: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    plain: dict[str, str] = {}
    named: dict[str, str] = {}
    for name, value in headers.items():
        if name.lower() == "authorization" and (bearer := _BEARER.match(value)):
            result["bearer_token_env_var"] = bearer[1]
        elif whole := _WHOLE.match(value):
            named[name] = whole[1]
        else:
            plain[name] = value
    _check_plain("headers", plain)
    return {**result, **({"env_http_headers": named} if named else {}), **({"http_headers": plain} if plain else {})}


def _check_plain(where: str, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if "${" in value:
            raise InvalidParamsError(
                f"{where}.{name} puts a variable into a text, or under another name, which config.toml cannot; set a "
                f"variable {name} and name it"
            )


def _texts(value: Any) -> Mapping[str, str]:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {name: text if isinstance(text, str) else str(text) for name, text in table.items()}
