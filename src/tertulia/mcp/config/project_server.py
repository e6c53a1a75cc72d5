"""A server as a project's file defines it: `.mcp.json`, or a table of a project's `config.toml`.

Such a file may come from other people: its size and form are bounded, and what could be read in two ways is refused.
The user may trust exactly this content; variables that it names are looked up only after that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import PUBLIC_HEADERS, is_secret
from tertulia.mcp.config.server_table import is_known_key, server_from_wire
from tertulia.policy.plain_file import read_optional_file
from tertulia.protocol.validation_text import explain_json
from tertulia.sandbox.mounts.stubs import is_stub

FILE_NAME = ".mcp.json"
MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_NAME = 256
MAX_SERVERS = 256

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_EXPANDED = ("command", "args", "env", "url", "http_headers")
_STARTED = frozenset({"stdio"})
_REACHED = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_OURS = {"headers": "http_headers"}
_WIDENING: Mapping[str, Any] = {
    "approval": "approve",
    "default_tools_approval_mode": "approve",
    "required": True,
    "sampling": True,
    "share": "host",
}
"""Settings by which a trusted server gets more than being started."""


def read_dot_mcp(path: Path) -> dict[str, Any]:
    """Its servers by name, as they are written; none where there is no file. InvalidParams says where it went wrong."""
    return read_server_file(path) or {}


def read_server_file(path: Path, *, key: str = "mcpServers", max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """The same for a file that has them under another key; None where there is no file."""
    raw = None if is_stub(path) else read_optional_file(path, max_bytes, str(path))
    if raw is None:
        return None
    content = _parse(raw, path)
    servers = cast("Mapping[str, Any]", content).get(key, {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise InvalidParamsError(f'{path}: expected an object {{"{key}": {{NAME: {{…}}}}}}')
    by_name = cast("dict[str, Any]", servers)
    if (reason := _invalid_reason(by_name)) is not None:
        raise InvalidParamsError(f"{path}: {reason}")
    return by_name


def server_table_of(label: str, entry: object, variables: Mapping[str, str] | None) -> dict[str, Any]:
    """An entry as a `[mcp_servers.NAME]` table, with its variables expanded (None: as they are written).
    InvalidParamsError names what is missing.

    Keys of other hosts are left out; `unknown_keys` has them.
    """
    if not isinstance(entry, dict):
        raise InvalidParamsError(f"{label}: expected an object with command or url")
    fields = cast("dict[str, Any]", entry)
    foreign = unknown_keys(fields)
    table = {_OURS.get(key, key): value for key, value in fields.items() if key not in foreign}
    _check_type(label, table.pop("type", None), table)
    if isinstance(disabled := table.pop("disabled", None), bool):
        table["enabled"] = not disabled
    if variables is None:
        return table
    return {key: _expanded(value, label, variables) if key in _EXPANDED else value for key, value in table.items()}


def variables_in(entry: object) -> set[str]:
    """The names of the variables that an entry expands."""
    table = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    places = [value for key, value in table.items() if _OURS.get(key, key) in _EXPANDED]
    return {name for name, _ in _VARIABLE.findall(json.dumps(places, ensure_ascii=False))}


def unknown_keys(entry: object) -> list[str]:
    """Keys of an entry that have no meaning here."""
    keys = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    return [key for key in keys if not is_known_key(key) and key not in ("type", "disabled", *_OURS)]


def _check_type(label: str, kind: object, table: Mapping[str, Any]) -> None:
    if kind is not None and not isinstance(kind, str):
        raise InvalidParamsError(f"{label}: type must be stdio or http")
    if kind == "sse":
        raise InvalidParamsError(
            f"{label}: `sse` is the transport that streamable HTTP replaced; give the server's streamable HTTP address "
            "with the type `http`"
        )
    if kind is None or (kind in _STARTED and "url" not in table) or (kind in _REACHED and "command" not in table):
        return
    if kind in _STARTED or kind in _REACHED:
        raise InvalidParamsError(f"{label}: `stdio` goes with command, and `http` with url")
    raise InvalidParamsError(f"{label}: type must be stdio or http")


def _invalid_reason(servers: dict[str, Any]) -> str | None:
    """Why the servers cannot be listed, shown or hashed; None where they can."""
    if len(servers) > MAX_SERVERS or max(map(len, servers), default=0) > MAX_NAME:
        return f"at most {MAX_SERVERS} servers, with names of at most {MAX_NAME} characters"
    level: list[Any] = [servers]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers(outer)]
    if level:
        return "nested too deeply"
    try:
        json.dumps(servers, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "a lone surrogate; write valid Unicode"
    return None


def _containers(value: Any) -> list[Any]:
    inside = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
    return [entry for entry in inside if isinstance(entry, dict | list)]


def _expanded(value: Any, label: str, variables: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _VARIABLE.sub(lambda match: _value(match, label, variables), value)
        case list():
            return [_expanded(item, label, variables) for item in cast("list[Any]", value)]
        case dict():
            return {key: _expanded(item, label, variables) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _value(match: re.Match[str], label: str, variables: Mapping[str, str]) -> str:
    name, otherwise = match.groups()
    # As in a shell: with a default, an empty variable is as good as none.
    value = variables.get(name)
    if otherwise is not None:
        return value or otherwise
    if value is None:
        raise InvalidParamsError(f"{label}: the variable {name} is not set; set it, or write ${{{name}:-default}}")
    return value


def _parse(raw: bytes, path: Path) -> Any:
    try:
        text = raw.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidParamsError(f"{path}: expected UTF-8 (at line {line})") from None
    except json.JSONDecodeError as error:
        place = f"at line {error.lineno}, column {error.colno}"
        raise InvalidParamsError(f"{path}: not JSON {place}: {explain_json(error)}") from None
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{path}: {error.message}") from None
    except _DuplicateKeyError as error:
        where = _second_line(raw.decode("utf-8-sig"), error.key)
        raise InvalidParamsError(f"{path}: {error.key[:64]!r} is given twice{where}") from None
    except RecursionError:
        raise InvalidParamsError(f"{path}: nested too deeply") from None
    except ValueError:
        raise InvalidParamsError(f"{path}: a number has too many digits") from None


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return fields


def _constant(name: str) -> Any:
    raise InvalidParamsError(f"{name} is not JSON")


def _second_line(text: str, key: str) -> str:
    """The line of the second one, where it is written the same way."""
    places = [match.start() for match in re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text)]
    return f" (at line {text.count(chr(10), 0, places[-1]) + 1})" if len(places) == 2 else ""


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
        # Not msgspec, which encodes inf and nan of TOML in the same way. Dates are TOML's too.
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()

    @property
    def _table(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.entry) if isinstance(self.entry, dict) else {}

    @property
    def shown(self) -> Any:
        """The entry for the user to judge; only keys and passwords in it are hidden."""
        return masked_entry(self.entry)

    @property
    def kind(self) -> Literal["stdio", "http", ""]:
        """Whether it is a program or an address, by its entry."""
        return "http" if "url" in self._table else "stdio" if "command" in self._table else ""

    @property
    def variables(self) -> list[str]:
        """Variables of our environment that it would get, by its entry."""
        headers, login = self._table.get("env_http_headers"), self._table.get("oauth")
        oauth = cast("dict[str, Any]", login) if isinstance(login, dict) else {}
        named = [
            *_texts(self._table.get("env_vars")),
            *_texts([self._table.get("bearer_token_env_var")]),
            *_texts([oauth.get("client_secret_env_var")]),
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


def masked_entry(entry: Any) -> Any:
    """An entry to be shown: keys and passwords in it are hidden."""
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
