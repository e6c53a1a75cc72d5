"""The setting `hooks`: which programs and functions are asked, at which moments, and about which tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.tool_events import HookMoment

MOMENTS: tuple[HookMoment, ...] = get_args(HookMoment)
MAX_HOOKS = 64
MAX_TIMEOUT_S = 60.0
TIMEOUT_S = 10.0

_KEYS = ("on", "command", "function", "tools", "timeout_s")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class HookDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One hook: a program or a function, and when it is asked."""

    name: str
    on: tuple[HookMoment, ...]
    command: tuple[str, ...] = ()
    """A program and its arguments; empty: it is a function."""
    function: Callable[..., Any] | None = None
    """Takes what a program reads, returns what a program prints; plain or async."""
    tools: tuple[str, ...] | None = None
    """Patterns of the names of tools that it is asked about; None: all."""
    timeout_s: float = TIMEOUT_S
    folder: str | None = None
    """Where it is started, for one of a project; None: it is the user's own."""

    def __repr__(self) -> str:
        # Arguments may hold secrets.
        return f"HookDefinition({self.name!r}, on={self.on})"

    def wants_tool(self, name: str) -> bool:
        """Whether it is asked about this tool."""
        return self.tools is None or any(fnmatchcase(name, pattern) for pattern in self.tools)


def hooks_from_wire(tables: Mapping[str, Any]) -> tuple[HookDefinition, ...]:
    """Parse the setting where it is set. InvalidParamsError names the key and shows no value of it."""
    if len(tables) > MAX_HOOKS:
        raise InvalidParamsError(f"hooks: there are {len(tables)}, and at most {MAX_HOOKS} are possible")
    return tuple(hook_from_wire(name, table) for name, table in tables.items())


def hook_from_wire(name: str, table: Mapping[str, Any], *, folder: str | None = None) -> HookDefinition:
    """Parse one table. `folder`: where one of a project is started, which can name no function."""
    label = f"hooks.{name[:64]}"
    if not _NAME.fullmatch(name):
        raise InvalidParamsError(f"{label}: a name has at most 64 letters, digits, and ., _ or - between them")
    for key in table:
        if key not in _KEYS:
            raise InvalidParamsError(f"{label}: there is no setting {str(key)[:64]!r}; {name_hint(str(key), _KEYS)}")
    command, function = table.get("command"), table.get("function")
    if (command is None) == (function is None):
        raise InvalidParamsError(f"{label} needs either `command`, a program with its arguments, or `function`")
    if function is not None and (folder is not None or not callable(function)):
        raise InvalidParamsError(f"{label}.function must be a function of Python, which only a Python program can give")
    patterns = table.get("tools")
    return HookDefinition(
        name=name,
        on=_moments(label, table.get("on")),
        command=() if command is None else _words(f"{label}.command", command),
        function=cast("Callable[..., Any] | None", function),
        tools=None if patterns is None else _words(f"{label}.tools", patterns),
        timeout_s=_seconds(label, table.get("timeout_s", TIMEOUT_S)),
        folder=folder,
    )


def _moments(label: str, value: object) -> tuple[HookMoment, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        names = tuple(cast("Sequence[object]", value))
        if names and all(name in MOMENTS for name in names):
            return tuple(moment for moment in MOMENTS if moment in names)
    raise InvalidParamsError(f"{label}.on must be a list of some of {', '.join(MOMENTS)}")


def _words(label: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        words = tuple(cast("Sequence[object]", value))
        if words and words[0] != "" and all(isinstance(word, str) and "\0" not in word for word in words):
            return cast("tuple[str, ...]", words)
    raise InvalidParamsError(f"{label} must be a list of strings, and not empty")


def _seconds(label: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT_S:
        return float(value)
    raise InvalidParamsError(f"{label}.timeout_s must be a number of seconds up to {MAX_TIMEOUT_S:g}")
