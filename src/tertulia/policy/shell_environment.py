"""Which variables a command gets: a few of this process, and none whose name looks like a secret's. And whether a text
is the name of a variable.

Reads no environment by itself; the variables are handed to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint

Inherit = Literal["core", "all", "none"]

CORE = ("HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What nearly every program needs, and nothing else."""
SECRETS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SECRET_LENGTH = 20
_SECRET_DIGITS = 3
_INHERITED: Mapping[Inherit, tuple[str, ...]] = {"core": CORE, "all": ("*",), "none": ()}


class ShellEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The table `shell_environment`. A pattern has `*` and `?`, and upper and lower case are the same to it."""

    inherit: Inherit = "core"
    """What to begin with: `CORE`, everything, or nothing."""
    ignore_default_excludes: bool = False
    """True lets variables through that are called like secrets."""
    exclude: tuple[str, ...] = ()
    """Patterns of what to leave out."""
    set: Mapping[str, str] = {}
    """What to add, in any case: these names were chosen by the user, whatever they are called."""
    include_only: tuple[str, ...] = ()
    """Patterns of the only names that are allowed, `set` included; empty: every name."""

    def build(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command, out of these variables."""
        wanted = _INHERITED[self.inherit]
        built = {name: value for name, value in variables.items() if _fits(name, wanted)}
        refused = (*self.exclude, *(() if self.ignore_default_excludes else SECRETS))
        built = {name: value for name, value in built.items() if not _fits(name, refused)}
        built |= self.set
        if self.include_only:
            built = {name: value for name, value in built.items() if _fits(name, self.include_only)}
        return built

    def __repr__(self) -> str:
        # Not the values of `set`: they may be secrets.
        return f"ShellEnvironment(inherit={self.inherit!r}, set=<{', '.join(self.set)}>)"


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


def shell_environment_from_wire(table: Mapping[str, object]) -> ShellEnvironment:
    """Parse the table; InvalidParams names the key, and never shows a value of `set`."""
    for name in table:
        if name not in ShellEnvironment.__struct_fields__:
            hint = name_hint(name, ShellEnvironment.__struct_fields__)
            raise InvalidParamsError(f"shell_environment has no {name!r:.80}; {hint}")
    inherit = table.get("inherit", "core")
    if inherit not in get_args(Inherit):
        raise InvalidParamsError(
            f"shell_environment.inherit must be one of {', '.join(get_args(Inherit))}, not {inherit!r}"
        )
    ignore = table.get("ignore_default_excludes", False)
    if not isinstance(ignore, bool):
        raise InvalidParamsError(f"shell_environment.ignore_default_excludes must be true or false, not {ignore!r}")
    return ShellEnvironment(
        inherit=cast("Inherit", inherit),
        ignore_default_excludes=ignore,
        exclude=_patterns("exclude", table),
        set=variables_from_wire("shell_environment.set", table.get("set", {})),
        include_only=_patterns("include_only", table),
    )


def _patterns(key: str, table: Mapping[str, object]) -> tuple[str, ...]:
    value = table.get(key, ())
    if isinstance(value, list | tuple):
        items = tuple(cast("tuple[object, ...]", value))
        if all(isinstance(item, str) and item for item in items):
            return cast("tuple[str, ...]", items)
    raise InvalidParamsError(f"shell_environment.{key} must be a list of patterns, such as 'AWS_*'")


def variables_from_wire(label: str, value: object) -> dict[str, str]:
    """A table of variables that a program can be given; InvalidParamsError names the one that it cannot."""
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{label} must be a table of variables")
    variables = cast("Mapping[object, object]", value)
    for name, text in variables.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InvalidParamsError(f"{label}: {name!r:.80} cannot be the name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise InvalidParamsError(f"{label}.{name} must be a text without NUL")
    return cast("dict[str, str]", dict(variables))


def check_variable_name(name: str, setting: str) -> str:
    """The name; InvalidParams where it is none. The text is not repeated: it may be the secret itself."""
    if _looks_like_secret(name):
        raise InvalidParamsError(
            f"{setting} must be the name of an environment variable, and this looks like the key itself: put the key "
            f"into a variable (export NAME=…) and write the variable's name; a key that stood in a file should be "
            "replaced"
        )
    if not _VARIABLE.match(name):
        raise InvalidParamsError(
            f"{setting} must be the name of an environment variable: letters, digits and `_`, such as OPENAI_API_KEY"
        )
    return name


def _looks_like_secret(text: str) -> bool:
    """Long, with digits, and not in the capitals that names of variables are written in."""
    digits = sum(character.isdigit() for character in text)
    return len(text) >= _SECRET_LENGTH and digits >= _SECRET_DIGITS and text != text.upper()
