"""The kinds of fields that a conversation has, and what one row of their table says.

A kind knows how its values are spelled. It does not know what stricter means: `policy.rights` makes the order of a
right from its kind.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import word_hint


class Switch(msgspec.Struct, frozen=True):
    """On or off; as a right, off is narrower. One that was set nowhere is on, unless `opt_in`."""

    tools: tuple[str, ...] = ()
    """Names of built-in tools that a conversation has only where it is on."""
    short_name: str = ""
    """Of a switch of tools: its name in `tools_prefs` and among the `internal_tools` of `conv_create`."""
    opt_in: bool = False
    """Off for a conversation, unless it or its session asks for it."""

    def parse(self, name: str, value: object) -> bool:
        """The value itself; InvalidParams for anything but a boolean."""
        if not isinstance(value, bool):
            raise InvalidParamsError(f"{name} must be true or false, not {value!r:.80}")
        return value


class Words(msgspec.Struct, frozen=True):
    """One of a few words; as a right, an earlier word is narrower."""

    words: tuple[str, ...]
    dashed: bool = False
    """Written with `-` by clients and files. Either is read."""
    off: str | None = None
    """The one word that takes something away. The right is then whether it is there; its form is a preference."""

    def parse(self, name: str, value: object) -> str:
        """The word as the code spells it; InvalidParams lists those that there are."""
        word = value.replace("-", "_") if isinstance(value, str) else None
        if word not in self.words:
            words = self.spelled()
            hint = word_hint(value, words)
            raise InvalidParamsError(f"{name} must be one of {', '.join(words)}, not {value!r:.80}{hint}")
        return word

    def to_wire(self, word: str) -> str:
        """The spelling of clients and configuration files."""
        return word.replace("_", "-") if self.dashed else word

    def spelled(self) -> list[str]:
        """All words, as clients spell them."""
        return [self.to_wire(word) for word in self.words]


class Number(msgspec.Struct, frozen=True):
    """A number in a range; always a preference."""

    lowest: float
    highest: float
    whole: bool = False

    def parse(self, name: str, value: object) -> float:
        """The number, a whole one as an int; InvalidParams tells the range."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not self._fits(value):
            raise InvalidParamsError(f"{name} must be {self.described()}, not {value!r:.80}")
        return int(value) if self.whole else float(value)

    def described(self) -> str:
        """The range of numbers, for people."""
        return f"a {'whole ' if self.whole else ''}number from {self.lowest:g} to {self.highest:,.0f}"

    def _fits(self, value: float) -> bool:
        return self.lowest <= value <= self.highest and (not self.whole or value == int(value))


class Structured(msgspec.Struct, frozen=True):
    """A text, a list or a table, which the stage that knows its parts reads."""

    narrowing: str = ""
    """Of a right: what is narrower than what, as docs/rights.md says it."""


FieldKind = Switch | Words | Number | Structured


class ConversationField(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: one thing that a conversation has, and that it, its session or both can be given."""

    name: str
    """In Python, on the wire and in config.toml."""
    kind: FieldKind
    doc: str | None = None
    """What it is, for people who open a conversation with it; None: only a session can be given it."""
    setting: str | None = None
    """What it does for all conversations, for people who write it into config.toml; None: it is no setting."""
    default: Any = None
    """Of the setting, in wire spelling; None: unset."""
    narrows: bool = False
    """Whether it is a right: a conversation gets the meet of what it asks for and what is allowed."""
    right: str = ""
    """The name of that right, where it is not the field's."""
    python_only: bool = False
    """Holds objects of this process, so no client can send it."""

    def __post_init__(self) -> None:
        if self.narrows and not self.right:
            force_setattr(self, "right", self.name)

    @property
    def is_preference(self) -> bool:
        """Whether terms hold its value as it was asked for: it is not structured, and not, or not only, a right."""
        if isinstance(self.kind, Structured) or self.doc is None:
            return False
        return not self.narrows or (isinstance(self.kind, Words) and self.kind.off is not None)

    def parse(self, value: object) -> Any:
        """A switch or a word as the code spells it. A structured value is as it is: another stage reads it."""
        return value if isinstance(self.kind, Structured) else self.kind.parse(self.name, value)
