"""Reading settings as people write them: a TOML file, or `-c key=value`. Says where it went wrong, and how.

A project's file is not the user's own: its size, its depth and what it really is are bounded before it is parsed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from tertulia.errors import InvalidParamsError
from tertulia.protocol.validation_text import explain_toml

MAX_BYTES = 1024 * 1024
MAX_DOTS = 200
"""In one line. Reading a dotted key costs the square of its parts: a file of 64 KB could take half a minute."""
MAX_DEPTH = 100
"""Of tables within tables and lists."""


def read_config(path: Path) -> dict[str, Any] | None:
    """The file's tables, or None where there is no file. A file that cannot be read or parsed is an error."""
    try:
        if path.exists() and not path.is_file():
            what = "a directory" if path.is_dir() else "no ordinary file"
            raise InvalidParamsError(f"{path}: expected a file, and this is {what}")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidParamsError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise InvalidParamsError(f"{path}: larger than {MAX_BYTES:,} bytes")
    try:
        return _parse(raw.decode())
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidParamsError(f"{path}: expected UTF-8 (at line {line}); save the file as UTF-8") from None
    except ValueError as error:
        raise InvalidParamsError(f"{path}: {error}") from None


def read_override(override: str) -> dict[str, Any]:
    """`limits.mcp_wait_s=5` as tables. The value is TOML; what is not TOML is taken as a string."""
    key, equals, value = override.partition("=")
    for spelled in (value, json.dumps(value.strip(), ensure_ascii=False)) if equals else ():
        try:
            return _parse(f"{key} = {spelled}")
        except ValueError:
            continue
    # The value is not repeated: it may be a secret.
    raise InvalidParamsError(f"-c {key}: expected key=value with a dotted key, such as -c limits.task_timeout_s=60")


def anchor(paths: Any, folder: Path, user_home: Path) -> Any:
    """Directories as people write them, made absolute from `folder`; what is no list of texts is left alone."""
    if not isinstance(paths, list):
        return paths
    return [_anchor(path, folder, user_home) for path in cast("list[Any]", paths)]


def anchor_entries(tables: Any, key: str, folder: Path, user_home: Path | None = None) -> Any:
    """Tables by name, the path under `key` of each made absolute from `folder`; what is no such table is left alone.

    Without `user_home` a path that begins with `~` stays as it is: it is read where the home is known.
    """
    if not isinstance(tables, dict):
        return tables
    anchored = dict(cast("dict[str, Any]", tables))
    for name, entry in anchored.items():
        if isinstance(entry, dict) and key in entry:
            table = cast("dict[str, Any]", entry)
            anchored[name] = {**table, key: _anchor(table[key], folder, user_home)}
    return anchored


def _anchor(path: Any, folder: Path, user_home: Path | None) -> Any:
    if not isinstance(path, str):
        return path
    # Imported here: a program without a file of settings needs none of it.
    from tertulia.mcp.config.server_table import starts_at_home

    if starts_at_home(path):
        return path if user_home is None else str(user_home / path[2:])
    return str(folder / path)


def _parse(text: str) -> dict[str, Any]:
    """The tables of a text; ValueError says in our words why there are none."""
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        raise ValueError(f"a line with more than {MAX_DOTS} dots")
    # Here and not above: a program that makes its settings itself reads no file.
    import tomllib

    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(explain_toml(error)) from None
    if _is_deep(tables):
        raise ValueError("nested too deeply")
    return tables


def _is_deep(tables: dict[str, Any]) -> bool:
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        level = [entry for outer in level for entry in _entries(outer)]
    return bool(level)


def _entries(value: Any) -> list[Any]:
    """The tables and lists directly inside a table or a list."""
    inside = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
    return [entry for entry in inside if isinstance(entry, dict | list)]
