"""Parses a table `[mcp_servers.NAME]` into a `ServerDefinition`. The keys are those of Codex, and a few more.

Nothing is looked up here: `launch` looks up variables when a server is started. No error repeats a value: it may be a
secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import (
    Approval,
    ClientSecretMethod,
    Http,
    OAuthOptions,
    Origin,
    ServerDefinition,
    Share,
    Stdio,
)
from tertulia.policy.shell_environment import check_variable_name
from tertulia.protocol.inputs import check_text
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.tool_spec import is_legal_server

MAX_TIMEOUT_S = 86_400.0

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "host", "mcp-session-id", "transfer-encoding"}
)
"""The transport sets them itself."""

_CODEX = {"supports_parallel_tool_calls": "parallel", "default_tools_approval_mode": "approval"}
"""Codex's names of keys that have another name here. Their values are the same."""

_NOTES = {
    "auth": "`tertulia mcp login NAME` logs in to a server that wants it; leave it out",
    "disabled": "write enabled = false",
    "environment_id": "servers run on this machine; leave it out",
    "http_headers_helper": "name variables with env_http_headers",
    "name": "the name of the table, [mcp_servers.NAME], is the server's; leave it out",
    "oauth_resource": "the server names its resource itself; leave it out",
    "omit_tools_from": "what a conversation sees is its mcp_tool_allowlist; leave it out",
    "tools": "approval holds for the whole server; write enabled_tools and disabled_tools for single tools",
    "transport": "a server with url is reached over HTTP, one with command over its standard input; leave it out",
    "type": "a server with url is reached over HTTP, one with command over its standard input; leave it out",
}
"""What to do instead of a key of Codex or Claude Code that has no single key of ours."""


def server_from_wire(
    name: str, table: object, *, origin: Origin, source: str = "", folder: Path | None = None
) -> ServerDefinition:
    """Parse one table. A relative `cwd` or root counts from `folder`; `~` is left for `launch`, which knows the home.

    InvalidParams names the server and the key.
    """
    if (wrong := server_name_error(name)) is not None:
        raise InvalidParamsError(wrong)
    fields = read_table(f"mcp_servers.{name}", table)
    if "roots" in fields:
        fields["roots"] = tuple(resolve_directory(root, folder) for root in fields["roots"])
    transport = fields["transport"]
    if isinstance(transport, Stdio) and transport.cwd is not None:
        fields["transport"] = Stdio(
            command=transport.command,
            args=transport.args,
            env=transport.env,
            env_vars=transport.env_vars,
            cwd=resolve_directory(transport.cwd, folder),
        )
    return ServerDefinition(name=name, origin=origin, source=source, **fields)


def server_name_error(name: str) -> str | None:
    """Why a server cannot have that name; None where it can."""
    if is_legal_server(name):
        return None
    return f"mcp_servers: {name[:64]!r} cannot be the name of a server; use letters, digits, `_` and `-`"


def resolve_directory(cwd: str, folder: Path | None) -> str:
    """A directory of a configuration file, relative to the folder of that file."""
    return cwd if folder is None or starts_at_home(cwd) else str(folder / cwd)


def starts_at_home(path: str) -> bool:
    """Whether it begins with `~`."""
    return path == "~" or path.startswith("~/")


def is_known_key(key: str) -> bool:
    """Whether a server's table may have that key."""
    return (
        key in _KEYS
        or key in _CODEX
        or key == "startup_timeout_ms"
        or any(key in keys for keys in _TRANSPORTS.values())
    )


def read_table(label: str, table: object) -> dict[str, Any]:
    """The fields of a definition, without its name and where it comes from. `label` names the table in errors."""
    if not isinstance(table, Mapping):
        raise InvalidParamsError(f"{label} must be a table with command or url")
    written = dict(cast("Mapping[Any, Any]", table))
    entries = _with_own_names(label, written)
    theirs = {ours: name for name, ours in _CODEX.items() if name in written}
    kind = _kind(label, entries)
    fields: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for key, value in entries.items():
        if key in _TRANSPORTS[kind]:
            parts[key] = _TRANSPORTS[kind][key](f"{label}.{key}", value)
        elif key in _KEYS:
            field, reader = _KEYS[key]
            fields[field] = reader(f"{label}.{theirs.get(key, key)}", value)
        else:
            raise InvalidParamsError(_unknown(label, str(key), kind))
    if kind == "url":
        _check_headers(label, parts)
        parts["oauth"] = OAuthOptions(**parts.get("oauth", {}), scopes=parts.pop("scopes", ()))
    return {**fields, "transport": Stdio(**parts) if kind == "command" else Http(**parts)}


def _with_own_names(label: str, table: dict[Any, Any]) -> dict[Any, Any]:
    entries = dict(table)
    for theirs, ours in _CODEX.items():
        if theirs in entries:
            if ours in entries:
                raise InvalidParamsError(f"{label} has both {ours} and {theirs}, which are the same")
            entries[ours] = entries.pop(theirs)
    if "startup_timeout_ms" in entries:
        if "startup_timeout_sec" in entries:
            raise InvalidParamsError(f"{label} has both startup_timeout_sec and startup_timeout_ms")
        entries["startup_timeout_sec"] = _seconds(
            f"{label}.startup_timeout_ms", entries.pop("startup_timeout_ms"), 1000
        )
    return entries


def _kind(label: str, table: Mapping[Any, Any]) -> Literal["command", "url"]:
    if ("command" in table) == ("url" in table):
        problem = "has both command and url; it is" if "url" in table else "has neither command nor url; it must be"
        raise InvalidParamsError(f"{label} {problem} either a program to start or an address to reach")
    return "url" if "url" in table else "command"


def _unknown(label: str, key: str, kind: Literal["command", "url"]) -> str:
    other: Literal["command", "url"] = "command" if kind == "url" else "url"
    if key in _TRANSPORTS[other]:
        return f"{label}.{key} goes with {other}, and this server has {kind}"
    keys = sorted((*_TRANSPORTS[kind], *_KEYS, *_CODEX))
    return f"{label}: there is no setting {key[:64]!r}; {name_hint(key, keys, _NOTES)}"


# ---- values


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParamsError(f"{name} must be a text")
    if "\0" in value:
        raise InvalidParamsError(f"{name} has a NUL character")
    return check_text(value, name)


def _word(name: str, value: object) -> str:
    text = _text(name, value)
    if not text.strip():
        raise InvalidParamsError(f"{name} must not be empty")
    return text


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidParamsError(f"{name} must be a list of texts")
    items = cast("list[object]", value)
    return tuple(_text(f"{name}[{number}]", item) for number, item in enumerate(items))


def _words(name: str, value: object) -> tuple[str, ...]:
    return tuple(_word(name, entry) for entry in _texts(name, value))


def _variable(name: str, value: object) -> str:
    return check_variable_name(_word(name, value), name)


def _variables(name: str, value: object) -> tuple[str, ...]:
    return tuple(_variable(name, entry) for entry in _texts(name, value))


def _table(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{name} must be a table of texts")
    table = cast("Mapping[object, object]", value)
    return {_word(f"a key of {name}", key): _text(f"{name}.{key}", entry) for key, entry in table.items()}


def _environment(name: str, value: object) -> dict[str, str]:
    table = _table(name, value)
    for key in table:
        if "=" in key or key != key.strip():
            raise InvalidParamsError(f"a key of {name} must be the name of a variable")
    return table


def _headers(name: str, value: object) -> dict[str, str]:
    table = _table(name, value)
    for header, entry in table.items():
        if not _HEADER.match(header):
            raise InvalidParamsError(f"{name}: {header[:64]!r} cannot be the name of a header")
        if header.lower() in _OWN_HEADERS:
            raise InvalidParamsError(f"{name}.{header} is set by the transport itself; leave it out")
        if not is_header_value(entry):
            raise InvalidParamsError(f"{name}.{header} must be one line of plain ASCII")
    return table


def is_header_value(text: str) -> bool:
    """Whether it is one line of plain ASCII, as a header needs it."""
    return _HEADER_VALUE.match(text) is not None


def _env_headers(name: str, value: object) -> dict[str, str]:
    return {header: _variable(f"{name}.{header}", entry) for header, entry in _headers(name, value).items()}


def _check_headers(label: str, parts: Mapping[str, Any]) -> None:
    """Refuse a header with two values."""
    entries = [*parts.get("http_headers", ()), *parts.get("env_http_headers", ())]
    entries += ["Authorization"] if parts.get("bearer_token_env_var") else []
    seen: set[str] = set()
    for header in entries:
        if header.lower() in seen:
            raise InvalidParamsError(f"{label} gives the header {header} twice (bearer_token_env_var is Authorization)")
        seen.add(header.lower())


def _oauth(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{name} must be a table with {', '.join(_OAUTH)}")
    table = dict(cast("Mapping[Any, Any]", value))
    if (unknown := next((key for key in table if key not in _OAUTH), None)) is not None:
        raise InvalidParamsError(f"{name}: there is no setting {str(unknown)[:64]!r}; there are {', '.join(_OAUTH)}")
    if "client_secret_env_var" in table and "client_id" not in table:
        raise InvalidParamsError(f"{name}.client_secret_env_var goes with client_id, which is missing")
    return {key: _OAUTH[key](f"{name}.{key}", entry) for key, entry in table.items()}


def _document(name: str, value: object) -> str:
    address = _url(name, value)
    if not address.startswith("https://") or urlsplit(address).path in ("", "/"):
        raise InvalidParamsError(f"{name} must be an address like https://host/document.json")
    return address


def _port(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 65_536:
        return value
    raise InvalidParamsError(f"{name} must be a number from 0 to 65535")


def _scopes(name: str, value: object) -> tuple[str, ...]:
    scopes = _words(name, value)
    if any(not _SCOPE.match(scope) for scope in scopes):
        raise InvalidParamsError(f"{name} must be a list of words without spaces and quotes")
    return scopes


def _url(name: str, value: object) -> str:
    text = _word(name, value)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or port == 0 or not _is_plain(text):
        raise InvalidParamsError(f"{name} must be an address like https://host/path")
    if parts.username is not None or parts.password is not None:
        raise InvalidParamsError(
            f"{name} must not hold a password; put it in a variable and name it in bearer_token_env_var"
        )
    return text


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidParamsError(f"{name} must be true or false")
    return value


def _seconds(name: str, value: object, unit: int = 1) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        seconds = value / unit
        if 0 < seconds <= MAX_TIMEOUT_S:
            return float(seconds)
    what = "seconds" if unit == 1 else "milliseconds"
    raise InvalidParamsError(f"{name} must be a positive number of {what}, at most {MAX_TIMEOUT_S * unit:,.0f}")


def _seconds_or_none(name: str, value: object) -> float | None:
    # The word, because TOML knows no null.
    return None if value in (None, "none") else _seconds(name, value)


def _count_or_none(name: str, value: object) -> int | None:
    if value in (None, "none"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise InvalidParamsError(f"{name} must be a positive whole number, or `none`")


def _one_of(words: tuple[str, ...], name: str, value: object) -> str:
    word = value.replace("-", "_") if isinstance(value, str) else None
    if word not in words:
        raise InvalidParamsError(f"{name} must be one of {', '.join(words)}")
    return word


def _sandbox(name: str, value: object) -> str | None:
    word = _one_of(("none", "danger_full_access", "read_only", "workspace_write"), name, value)
    return None if word in ("none", "danger_full_access") else word


_TRANSPORTS: Mapping[Literal["command", "url"], Mapping[str, Callable[[str, object], Any]]] = {
    "command": {"command": _word, "args": _texts, "env": _environment, "env_vars": _variables, "cwd": _word},
    "url": {
        "url": _url,
        "bearer_token_env_var": _variable,
        "http_headers": _headers,
        "env_http_headers": _env_headers,
        "oauth": _oauth,
        "scopes": _scopes,
    },
}

_OAUTH: Mapping[str, Callable[[str, object], Any]] = {
    "client_id": _word,
    "client_secret_env_var": _variable,
    "client_secret_method": partial(_one_of, get_args(ClientSecretMethod)),
    "client_metadata_url": _document,
    "callback_port": _port,
}

_KEYS: Mapping[str, tuple[str, Callable[[str, object], Any]]] = {
    "enabled": ("enabled", _switch),
    "required": ("required", _switch),
    "startup_timeout_sec": ("startup_timeout_s", _seconds),
    "tool_timeout_sec": ("tool_timeout_s", _seconds),
    "enabled_tools": ("enabled_tools", _texts),
    "disabled_tools": ("disabled_tools", _texts),
    "approval": ("approval", partial(_one_of, get_args(Approval))),
    "parallel": ("parallel", _switch),
    "share": ("share", partial(_one_of, get_args(Share))),
    "start": ("start", partial(_one_of, ("eager", "lazy"))),
    "sandbox": ("sandbox", _sandbox),
    "network": ("network", _switch),
    "pid_namespace": ("pid_namespace", _switch),
    "roots": ("roots", _words),
    "concurrency": ("concurrency", _count_or_none),
    "idle_timeout_sec": ("idle_timeout_s", _seconds_or_none),
    "elicitation": ("elicitation", _switch),
    "sampling": ("sampling", _switch),
}
"""By the key in the table: the field of the definition, and its parser."""
