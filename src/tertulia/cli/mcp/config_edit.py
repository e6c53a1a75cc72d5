"""`tertulia mcp add` and `rm`: a server written into the user's `config.toml`, or taken out of it."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, NotFoundError, StorageError
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.session.settings.config_file import read_override

_FAMILY = "mcp_servers"

_MORE_ADD = """
\b
Examples:
  tertulia mcp add time -- uvx mcp-server-time
  tertulia mcp add fs --set share=host -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  tertulia mcp add github --env-var GITHUB_TOKEN -- github-mcp-server stdio
  tertulia mcp add docs --url https://docs.example.com/mcp --bearer-token-env-var DOCS_TOKEN
"""
_MORE_RM = """
\b
Examples:
  tertulia mcp rm time
"""


@click.command("add", epilog=_MORE_ADD, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGUMENT]...]")
@click.option("url", "--url", metavar="URL", help="Reach it at this address, instead of starting a program.")
@click.option("env", "--env", metavar="NAME=VALUE", multiple=True, help="A variable for the program; repeatable.")
@click.option("env_vars", "--env-var", metavar="NAME", multiple=True, help="A variable of yours that it gets, by name.")
@click.option(
    "bearer", "--bearer-token-env-var", metavar="NAME", help="The variable that holds the token for the address."
)
@click.option("more", "--set", metavar="KEY=VALUE", multiple=True, help="Any other key of the table; repeatable.")
@global_flags
@click.pass_obj
def add(given: GlobalFlags, *, name: str, argv: Sequence[str], url: str | None, **options: Any) -> int:
    """Write a server into your config.toml.

    Everything else in the file stays as it is. Nothing is started; `tertulia mcp test NAME` does. A key that should not
    stand in a file is better left in a variable and named.
    """
    loaded = given.load()
    table: dict[str, Any] = {"command": argv[0], "args": list(argv[1:])} if argv else {}
    table |= {"url": url} if url is not None else {}
    table |= {"env": dict(map(_pair, options["env"]))} if options["env"] else {}
    table |= {"env_vars": list(options["env_vars"])} if options["env_vars"] else {}
    table |= {"bearer_token_env_var": options["bearer"]} if options["bearer"] is not None else {}
    for each in options["more"]:
        table |= read_override(each)
    if not table.get("args", True):
        del table["args"]
    server_from_wire(name, table, origin="user")
    path = loaded.environment.config_file
    add_table(path, _FAMILY, name, table)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line((name, "bold"), f" is in {path}; `tertulia mcp test {name}` tries it out")
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # Not repeated: it may be the value alone.
        raise InvalidParamsError("--env takes NAME=VALUE")
    return name, value


@click.command("rm", epilog=_MORE_RM)
@click.argument("name")
@global_flags
@click.pass_obj
def rm(given: GlobalFlags, *, name: str) -> int:
    """Take a server out of your config.toml.

    Comments and everything else stay. A project's server is not yours to remove: `tertulia mcp trust --revoke` forgets
    that it was trusted.
    """
    loaded = given.load()
    path = loaded.environment.config_file
    if not remove_table(path, _FAMILY, name):
        theirs = next((each.source for each in loaded.settings.project_servers if each.name == name), None)
        if theirs is not None:
            raise NotFoundError(
                f"{name} is defined by {theirs}; `tertulia mcp trust --revoke {name}` keeps it from starting"
            )
        raise NotFoundError(f"{path} has no MCP server {name!r}; `tertulia mcp ls` shows what there is")
    TerminalOutput(sys.stdout, loaded.environment.variables).line((name, "bold"), f" is no longer in {path}")
    return 0


def add_table(path: Path, family: str, name: str, table: Mapping[str, Any]) -> None:
    """Append `[family.name]`. InvalidParams if there is one; StorageError if it cannot be written."""
    text, before = _read(path)
    tables = _family(before, family)
    if name in tables:
        raise InvalidParamsError(f"{path} has [{family}.{name}] already; remove it first")
    lines = [f"[{family}.{_key(name)}]", *(f"{_key(key)} = {toml_value(value)}" for key, value in table.items())]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    _write(path, f"{text}{gap}{chr(10).join(lines)}\n", {**before, family: {**tables, name: dict(table)}}, family)


def remove_table(path: Path, family: str, name: str) -> bool:
    """Take out `[family.name]` with all below it; False if there is none."""
    text, before = _read(path)
    tables = _family(before, family)
    if name not in tables:
        return False
    rest = {key: value for key, value in tables.items() if key != name}
    after = {key: value for key, value in before.items() if key != family}
    kept = _without(text.splitlines(keepends=True), (family, name))
    _write(path, kept, {**after, family: rest} if rest else after, family)
    return True


def toml_value(value: Any) -> str:
    """Any value of a setting as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # A JSON text is a TOML text, but for one character.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(toml_value, cast('list[Any]', value)))}]"
        case Mapping():
            entries = cast("Mapping[str, Any]", value).items()
            return f"{{ {', '.join(f'{_key(key)} = {toml_value(each)}' for key, each in entries)} }}"
        case _:
            raise InvalidParamsError("that cannot be written as TOML")


def _key(name: str) -> str:
    bare = name.isascii() and name and all(character.isalnum() or character in "_-" for character in name)
    return name if bare else toml_value(name)


def _family(tables: Mapping[str, Any], family: str) -> dict[str, Any]:
    return cast("dict[str, Any]", tables.get(family, {}))


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        # As it is: its line ends may be another system's.
        text = path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        text = ""
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParamsError(f"{path}: {error}") from None


def _without(lines: list[str], gone: tuple[str, str]) -> str:
    kept: list[str] = []
    inside = False
    for line in lines:
        header = _header(line)
        if header is not None:
            if header[:2] == gone and not inside:
                # The empty line before it goes with it.
                kept = kept[:-1] if kept and not kept[-1].strip() else kept
            inside = header[:2] == gone
        if not inside or line.lstrip().startswith("#"):
            kept.append(line)
    return "".join(kept)


def _header(line: str) -> tuple[str, ...] | None:
    """What `[a.b]` names; None for every other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        tables: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    names: list[str] = []
    while isinstance(tables, dict) and tables:
        name = next(iter(cast("dict[str, Any]", tables)))
        names.append(name)
        tables = cast("dict[str, Any]", tables)[name]
    return tuple(names)


def _write(path: Path, text: str, wanted: Mapping[str, Any], family: str) -> None:
    try:
        found: dict[str, Any] | None = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = None
    if found != wanted and not (found is not None and {**found, family: found.get(family, {})} == wanted):
        raise InvalidParamsError(f"{path} is written in a way that cannot be changed safely; edit [{family}] by hand")
    try:
        _replace(path, text)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}", file=str(path)) from None


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The link stays that somebody keeps it under: only what it leads to is replaced.
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    unborn = real.with_name(f".{real.name}.new")
    with suppress(FileNotFoundError):
        unborn.unlink()
    number = os.open(unborn, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(number, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(number)
    os.replace(unborn, real)
