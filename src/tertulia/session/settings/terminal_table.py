"""The table `[tui]`: how the terminal looks, and which keys it knows. What keys there are only the terminal knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.validation_text import explain_validation


class TerminalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the terminal."""

    theme: Literal["terminal", "tertulia-dark", "tertulia-light", "high-contrast"] = "terminal"
    """`terminal` leaves colours to the terminal."""
    marks: Literal["unicode", "ascii"] = "unicode"
    mouse: bool = True
    """False leaves the mouse to the terminal, which then selects text itself."""
    vim: bool = False
    """Whether the composer has a normal mode with the keys of vim."""
    keys: dict[str, str] = {}
    """By the name that `/keys` shows: other keys, with commas between."""


def terminal_from_wire(value: object) -> TerminalSettings:
    """Parse the table `[tui]`. InvalidParams names what cannot be used, and what there is instead."""
    if isinstance(value, TerminalSettings):
        return value
    if not isinstance(value, Mapping):
        raise InvalidParamsError("tui must be a table")
    table = cast("Mapping[Any, Any]", value)
    for name in table:
        if name not in TerminalSettings.__struct_fields__:
            hint = name_hint(str(name), TerminalSettings.__struct_fields__)
            raise InvalidParamsError(f"tui: there is no setting {str(name)[:40]!r}; {hint}")
    try:
        return msgspec.convert(table, TerminalSettings)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"tui: {explain_validation(error, TerminalSettings)}") from None
