"""A `Launch`: all that is needed to reach a server, with every variable looked up, and a key by which equal ones share.

The definition is what was configured; this is what is done. It holds secrets, and its repr shows none.
"""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl

import msgspec

from tertulia.errors import McpError
from tertulia.mcp.config.definition import Http, OAuthOptions, ServerDefinition, Stdio
from tertulia.mcp.config.server_table import is_header_value, starts_at_home
from tertulia.policy.redaction import secrets_of

if TYPE_CHECKING:
    from tertulia.protocol.network.access import OutboundNetwork

DEFAULT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables of our environment that every program gets; of the others those that its definition names (C13)."""

PUBLIC_HEADERS = frozenset({"accept", "accept-language", "origin", "referer", "user-agent"})
_LEAST_GUESSED = 16


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A program with all that it is given, or an address with its headers."""

    transport: Literal["stdio", "http"]
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """The whole environment of the program."""
    cwd: str = ""
    """The absolute directory it is started in."""
    url: str = ""
    headers: Mapping[str, str] = {}
    """All headers, with credentials among them."""
    oauth: OAuthOptions | None = None
    """How to log in; None: it has its credentials already."""
    client_secret: str = ""
    """The secret of the client that `oauth` names."""
    proxy: str = ""
    """The address of the proxy that it is reached through, with its password; empty: none."""
    ca: tuple[str | None, str | None] = (None, None)
    """The file and the folder of certificates that are trusted besides the system's."""
    roots: tuple[str, ...] = ()
    """The roots that the server gets when it asks."""
    writable: tuple[str, ...] = ()
    """Directories that it may write to under `workspace_write`."""
    sandbox: str = ""
    """How it is confined; empty: not at all."""
    key: str = ""
    """A digest of all the above: two launches with one key are the same process. It can be shown."""

    def __repr__(self) -> str:
        return f"Launch({self.transport}, {self.key[:12]})"


def resolve_launch(
    definition: ServerDefinition,
    variables: Mapping[str, str],
    workspace: str | None = None,
    access: OutboundNetwork | None = None,
) -> Launch:
    """Look up what the definition names. McpError names the variable that is not set, and the setting.

    `workspace`: of the conversations that it is started for, if they have one; `access`: the way to an address.
    Whether the program exists is checked when it is started.
    """
    here = () if workspace is None else (workspace,)
    named = definition.roots
    roots = here if named is None else tuple(_absolute(definition.name, root, variables) for root in named)
    match definition.transport:
        case Stdio() as stdio:
            launch = Launch(
                transport="stdio",
                argv=(_from_home(stdio.command, variables), *stdio.args),
                environment=_environment(definition.name, stdio, variables),
                cwd=_directory(stdio, variables, workspace),
                roots=roots,
                writable=tuple(dict.fromkeys((*here, *roots))),
                sandbox=_sandbox_class(definition),
            )
        case Http() as http:
            headers = _headers(definition.name, http, variables)
            proxy = None if access is None else access.proxy_for(http.url)
            launch = Launch(
                transport="http",
                url=http.url,
                headers=headers,
                oauth=None if _has_credentials(headers) else http.oauth,
                client_secret=_client_secret(definition.name, http.oauth, variables),
                proxy="" if proxy is None else proxy.url,
                ca=(None, None) if access is None else (access.ca_file, access.ca_dir),
                roots=roots,
            )
    return msgspec.structs.replace(launch, key=_key(launch))


def placed(launch: Launch, definition: ServerDefinition, workspace: str | None) -> Launch:
    """The same for a conversation in that workspace. A server whose table names its roots gets no others."""
    if definition.roots is not None or not launch.roots or workspace is None or launch.roots == (workspace,):
        return launch
    moved = msgspec.structs.replace(launch, roots=(workspace,), writable=(workspace,) if launch.writable else ())
    return msgspec.structs.replace(moved, key=_key(moved))


def secrets_in_definition(definition: ServerDefinition, variables: Mapping[str, str]) -> list[str]:
    """Values that must not be recorded: tokens, headers, and variables that are named like or look like secrets."""
    match definition.transport:
        case Stdio(args=args, env=env, env_vars=names):
            passed = {name: variables[name] for name in names if name in variables}
            secrets = [*secrets_of({**env, **passed}), *filter(_looks_secret, env.values()), *_secret_arguments(args)]
        case Http(url=url, http_headers=headers, env_http_headers=named, bearer_token_env_var=bearer, oauth=oauth):
            names = (*named.values(), bearer, oauth.client_secret_env_var)
            held = [variables[name] for name in names if name is not None and name in variables]
            secrets = [*(value for name, value in headers.items() if name.lower() not in PUBLIC_HEADERS), *held]
            secrets += _secret_queries(url)
    return _spelled(secrets)


def secrets_in_launch(definition: ServerDefinition, launch: Launch) -> list[str]:
    """The same for a launch: values to remove from what the server returns."""
    if launch.transport == "stdio":
        return secrets_in_definition(definition, launch.environment)
    held = [value for name, value in launch.headers.items() if name.lower() not in PUBLIC_HEADERS]
    # Imported here: few servers are behind a proxy.
    from tertulia.protocol.network.access import access_from_table

    through = access_from_table({"http": launch.proxy}).secrets()
    return _spelled([*held, launch.client_secret, *_secret_queries(launch.url), *through])


def _spelled(values: Iterable[str]) -> list[str]:
    # `Bearer x` in a header is `x` anywhere else.
    return sorted({part.strip() for value in values for part in (value, value.rpartition(" ")[2])} - {""})


def is_secret(name: str) -> bool:
    """Whether a variable, a flag or a parameter is named like one that holds a secret."""
    return bool(secrets_of({name.replace("-", "_"): ""}))


def _environment(name: str, stdio: Stdio, variables: Mapping[str, str]) -> dict[str, str]:
    environment = {usual: variables[usual] for usual in DEFAULT_VARIABLES if usual in variables}
    for variable in stdio.env_vars:
        if variable in variables:
            environment[variable] = variables[variable]
        elif is_secret(variable):
            # Other variables may be missing; but a server without its key only fails later, and less clearly.
            raise _unset(name, "env_vars", variable)
    return {**environment, **stdio.env}


def _headers(name: str, http: Http, variables: Mapping[str, str]) -> dict[str, str]:
    headers = dict(http.http_headers)
    for header, variable in http.env_http_headers.items():
        headers[header] = _header_value(name, "env_http_headers", variable, variables)
    if (bearer := http.bearer_token_env_var) is not None:
        headers["Authorization"] = f"Bearer {_header_value(name, 'bearer_token_env_var', bearer, variables)}"
    return headers


def _has_credentials(headers: Mapping[str, str]) -> bool:
    return any(header.lower() == "authorization" for header in headers)


def _client_secret(name: str, oauth: OAuthOptions, variables: Mapping[str, str]) -> str:
    if oauth.client_secret_env_var is None:
        return ""
    return _header_value(name, "oauth.client_secret_env_var", oauth.client_secret_env_var, variables)


def _header_value(name: str, setting: str, variable: str, variables: Mapping[str, str]) -> str:
    # A key that was read from a file often ends with a newline.
    value = variables.get(variable, "").strip()
    if not value:
        raise _unset(name, setting, variable)
    if not is_header_value(value):
        raise McpError(f"{name}: the variable {variable}, named by mcp_servers.{name}.{setting}, cannot be a header")
    return value


def _unset(name: str, setting: str, variable: str) -> McpError:
    return McpError(f"{name}: the variable {variable} is not set; mcp_servers.{name}.{setting} names it")


def _directory(stdio: Stdio, variables: Mapping[str, str], workspace: str | None) -> str:
    if stdio.cwd is not None:
        return _from_home(stdio.cwd, variables)
    return workspace or variables.get("HOME") or "/"


def _absolute(name: str, root: str, variables: Mapping[str, str]) -> str:
    path = os.path.normpath(_from_home(root, variables))
    if not os.path.isabs(path):
        raise McpError(f"{name}: mcp_servers.{name}.roots names {root[:200]!r}, which is no absolute directory")
    return path


def _from_home(path: str, variables: Mapping[str, str]) -> str:
    home = variables.get("HOME")
    return f"{home}{path[1:]}" if home and starts_at_home(path) else path


def _sandbox_class(definition: ServerDefinition) -> str:
    if definition.sandbox is None:
        return "" if definition.pid_namespace else "no namespace of processes"
    return f"{definition.sandbox}, {'network' if definition.network else 'no network'}"


def _key(launch: Launch) -> str:
    fields = {name: getattr(launch, name) for name in Launch.__struct_fields__ if name != "key"}
    return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()


def _secret_arguments(args: Sequence[str]) -> Iterator[str]:
    """The values in `--api-key x` and `--api-key=x`."""
    for number, argument in enumerate(args):
        flag, equals, value = argument.partition("=")
        if flag.startswith("-") and is_secret(flag):
            yield value if equals else "".join(args[number + 1 : number + 2])


def _secret_queries(url: str) -> Iterator[str]:
    """The values in `?api_key=x`, which some services want."""
    for name, value in parse_qsl(url.partition("?")[2].partition("#")[0]):
        if is_secret(name) or _looks_secret(value):
            yield value


def _looks_secret(value: str) -> bool:
    """Whether it is long, of letters and digits, and neither a path nor an address nor a word."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= _LEAST_GUESSED and mixed and not any(mark in value for mark in "/ .,:\\")
