"""A table put into the user's `config.toml`, or taken out of it, with everything else left as it was written.

The text is changed, not written anew: people's comments stay. What comes out is parsed and must be exactly what was
wanted; where it is not, nothing is written and the user is asked to edit it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tertulia.errors import InvalidParamsError, StorageError


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
