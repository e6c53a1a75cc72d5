"""`tertulia mcp add` and `rm`: a server written into the user's `config.toml`, or taken out of it.

The file is edited with tomlkit, which is imported when it is needed: comments, order and layout of everything else
stay. The new text is parsed again and must say exactly what was meant; otherwise nothing is written and the user is
asked to edit the file.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, NotFoundError, StorageError
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.protocol.validation_text import explain_toml
from tertulia.session.settings.config_file import read_override

if TYPE_CHECKING:
    from tomlkit.items import Item, Key, Table

    _Body = list[tuple[Key | None, Item]]

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
@click.option(
    "env_vars",
    "--env-var",
    metavar="NAME",
    multiple=True,
    help="A variable of your environment to pass on; repeatable.",
)
@click.option(
    "bearer", "--bearer-token-env-var", metavar="NAME", help="The variable that holds the token for the address."
)
@click.option("more", "--set", metavar="KEY=VALUE", multiple=True, help="Any other key of the table; repeatable.")
@global_flags
@click.pass_obj
def add(flags: GlobalFlags, *, name: str, argv: Sequence[str], url: str | None, **options: Any) -> int:
    """Write a server into your config.toml.

    Everything else in the file stays as it is. Nothing is started; `tertulia mcp test NAME` does. A key that should not
    stand in a file is better left in a variable and named.
    """
    if len(argv) == 1 and len(words := argv[0].split()) > 1 and not Path(argv[0]).exists():
        raise click.UsageError(
            f"write the program and its arguments apart: mcp add {name} -- {words[0]} …, without quotes"
        )
    loaded = flags.load()
    table: dict[str, Any] = {"command": argv[0], "args": list(argv[1:])} if argv else {}
    table |= {"url": url} if url is not None else {}
    table |= {"env": dict(map(_pair, options["env"]))} if options["env"] else {}
    table |= {"env_vars": list(options["env_vars"])} if options["env_vars"] else {}
    table |= {"bearer_token_env_var": options["bearer"]} if options["bearer"] is not None else {}
    for override in options["more"]:
        table |= read_override(override)
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
def rm(flags: GlobalFlags, *, name: str) -> int:
    """Take a server out of your config.toml.

    Comments and everything else stay. A project's server is not yours to remove: `tertulia mcp trust --revoke` forgets
    that it was trusted.
    """
    loaded = flags.load()
    path = loaded.environment.config_file
    if not remove_table(path, _FAMILY, name):
        theirs = next((server.source for server in loaded.settings.project_servers if server.name == name), None)
        if theirs is not None:
            raise NotFoundError(
                f"{name} is defined by {theirs}; `tertulia mcp trust --revoke {name}` keeps it from starting"
            )
        raise NotFoundError(f"{path} has no MCP server {name!r}; `tertulia mcp ls` shows what there is")
    TerminalOutput(sys.stdout, loaded.environment.variables).line((name, "bold"), f" is no longer in {path}")
    return 0


# ---- editing the file


def add_table(path: Path, family: str, name: str, table: Mapping[str, Any]) -> None:
    """Append `[family.name]`; where the family is an inline table, add it there.

    Raises:
        InvalidParamsError: there is one already, or the file or a value is no TOML.
        StorageError: the file cannot be written.
    """
    text, before = read_text(path)
    tables = _tables(before, family)
    if name in tables:
        raise InvalidParamsError(f"{path} has [{family}.{name}] already; remove it first")
    expected = {**before, family: {**tables, name: dict(table)}}
    write_checked(path, with_table(text, family, name, table), expected, family)


def remove_table(path: Path, family: str, name: str) -> bool:
    """Take out `[family.name]` with all below it, but for the comments; False if there is none."""
    text, before = read_text(path)
    tables = _tables(before, family)
    if name not in tables:
        return False
    rest = {key: value for key, value in tables.items() if key != name}
    write_checked(path, _without_table(text, family, name), {**before, family: rest}, family)
    return True


def _tables(settings: Mapping[str, Any], family: str) -> dict[str, Any]:
    return cast("dict[str, Any]", settings.get(family, {}))


def read_text(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of the file and what it says; empty where there is none."""
    try:
        # Not as text: the ends of its lines may be another system's, and stay.
        text = path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        text = ""
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParamsError(f"{path}: {explain_toml(error)}") from None


def with_table(text: str, family: str, name: str, table: Mapping[str, Any]) -> str:
    """The text with `[family.name]` at its end."""
    import tomlkit
    from tomlkit.exceptions import ConvertError
    from tomlkit.items import InlineTable

    try:
        fields = tomlkit.inline_table()
        for key, value in table.items():
            fields.append(key, value)
    except ConvertError:
        raise InvalidParamsError(f"[{family}.{name}] has a value that cannot be written as TOML") from None
    document = tomlkit.parse(text)
    for key, inline in document.body:
        if key is not None and key.key == family and isinstance(inline, InlineTable):
            inline.append(name, fields)
            return document.as_string()
    # At the end of the file, not after its siblings: comments before the next table would be separated from it.
    added, tables, entry = tomlkit.document(), tomlkit.table(is_super_table=True), tomlkit.table()
    for key, value in fields.value.body:
        entry.append(key, value)
    tables.append(name, entry)
    added.append(family, tables)
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{added.as_string()}"


def _without_table(text: str, family: str, name: str) -> str:
    import tomlkit
    from tomlkit.items import InlineTable, Table

    document = tomlkit.parse(text)
    # From the end: what is put in and taken out moves only what was visited.
    for at in reversed(range(len(document.body))):
        key, parent = document.body[at]
        if key is None or key.key != family:
            continue
        if isinstance(parent, InlineTable):
            parent.remove(name)
        elif isinstance(parent, Table):
            _take_out(document.body, at, parent, name)
    return document.as_string()


def _take_out(document: _Body, at: int, parent: Table, name: str) -> None:
    """Remove an entry from the table at a position of the document; its comments and those below it stay there."""
    body = parent.value.body
    for index in reversed(range(len(body))):
        key, item = body[index]
        if key is None or key.key != name:
            continue
        del body[index]
        # A comment among the entries of a table without a header would give it one.
        headless = parent.is_super_table() and index == 0
        place, end = _end_of_text(document, at) if headless else _end_of_text(body, index)
        place[end:end] = _comments(item)
        _drop_empty_line(place, end)


def _end_of_text(body: _Body, index: int) -> tuple[_Body, int]:
    """Where the text before an entry ends: in the last table before it, or in the same body."""
    from tomlkit.items import Table

    key, previous = body[index - 1] if index else (None, None)
    if isinstance(previous, Table) and key is not None and not key.is_dotted():
        inner = previous.value.body
        return _end_of_text(inner, len(inner))
    return body, index


def _comments(item: Item) -> list[tuple[Key | None, Item]]:
    """The lines of a table, and of the tables in it, that are comments."""
    from tomlkit.items import Comment, Table

    body = item.value.body if isinstance(item, Table) else []
    return [
        comment
        for key, entry in body
        for comment in ([(key, entry)] if isinstance(entry, Comment) else _comments(entry))
    ]


def _drop_empty_line(body: _Body, end: int) -> None:
    """The empty line before a table that was removed."""
    from tomlkit.items import Whitespace

    key, previous = body[end - 1] if end else (None, None)
    if isinstance(previous, Whitespace):
        body[end - 1] = key, Whitespace(previous.s.removesuffix("\n").removesuffix("\r"))


def write_checked(path: Path, text: str, expected: Mapping[str, Any], family: str) -> None:
    """Replace the file, if its new text says exactly what was meant."""
    if {family: {}, **_loads(text)} != {family: {}, **expected}:
        raise InvalidParamsError(f"{path} is written in a way that cannot be changed safely; edit [{family}] by hand")
    try:
        _replace(path, text)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}", file=str(path)) from None


def _loads(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A link that leads to the file stays: only what it leads to is replaced.
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    temporary = real.with_name(f".{real.name}.new")
    with suppress(FileNotFoundError):
        temporary.unlink()
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(number, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(number)
    os.replace(temporary, real)
