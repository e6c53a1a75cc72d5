"""Finds what a word of a command line can become, by a table of all verbs and options.

The table, `words.json`, is made from the verbs themselves (`python -m tests.cli.completion.table`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

import msgspec

ValueKind = str | list[str]
"""What a value is: one of these words, or `any`, `file`, `dir`, `setting`, `session`, `model` or `provider`."""


class Candidate(NamedTuple):
    """One thing that the word can become."""

    value: str
    about: str = ""

    @property
    def is_path(self) -> bool:
        """Whether it asks the shell to complete paths itself."""
        return self.value in ("@file", "@dir")

    @property
    def goes_on(self) -> bool:
        """Whether more is to be typed in the same word."""
        return self.value.endswith(("/", "=", ":", "."))


KnownValues = Callable[[str], Iterable[Candidate]]
"""All values of a kind: `session`, `model` or `provider`."""


class TableOption(msgspec.Struct, frozen=True, array_like=True):
    """An option of a verb."""

    about: str
    kind: ValueKind | None = None
    """None: it takes no value."""


class TableVerb(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verb, or the program: what can follow it."""

    about: str = ""
    options: dict[str, TableOption] = {}
    arguments: list[ValueKind] = []
    """The last one may be repeated."""
    verbs: dict[str, TableVerb] = {}


class WordTable(msgspec.Struct, frozen=True):
    """All words that a command line can have."""

    program: TableVerb
    """Its options hold for every verb."""
    settings: dict[str, ValueKind]
    """What `-c` takes, by dotted names."""


def load_table() -> WordTable:
    """The table of this version."""
    return msgspec.json.decode(files(__package__ or "").joinpath("words.json").read_bytes(), type=WordTable)


def find_candidates(words: Sequence[str], current: str, known: KnownValues) -> list[Candidate]:
    """What `current` can become behind these words. `known` gives what is different on every machine."""
    return list(_Place(load_table(), known).follow(words).candidates(current))


class _Place:
    """Where in a command line the next word stands."""

    def __init__(self, table: WordTable, known: KnownValues) -> None:
        self._table = table
        self._known = known
        self._verb = table.program
        self._arguments = 0
        self._value: ValueKind | None = None
        """What the option before takes, where its value is still to come."""
        self._literal = False

    def follow(self, words: Sequence[str]) -> _Place:
        """Go on behind these words."""
        for word in words:
            if self._value is not None:
                self._value = None
            elif self._literal:
                self._arguments += 1
            elif word == "--":
                self._literal = True
            elif word.startswith("-") and word != "-":
                option = self._options().get(word)
                self._value = None if option is None else option.kind
            elif not self._arguments and word in self._verb.verbs:
                self._verb = self._verb.verbs[word]
            else:
                self._arguments += 1
        return self

    def candidates(self, current: str) -> Iterator[Candidate]:
        """What the next word can become, of which this much is there."""
        name, equals, value = current.partition("=")
        if self._value is not None:
            yield from self._values(self._value, current)
        elif self._literal or not current.startswith("-"):
            if not self._arguments and not self._literal:
                yield from _beginning({name: verb.about for name, verb in self._verb.verbs.items()}, current)
            if kinds := self._verb.arguments:
                yield from self._values(kinds[min(self._arguments, len(kinds) - 1)], current)
        elif not equals:
            yield from _beginning({name: option.about for name, option in self._options().items()}, current)
        elif (option := self._options().get(name)) is not None and option.kind is not None:
            for found in self._values(option.kind, value):
                yield found if found.is_path else Candidate(f"{name}={found.value}", found.about)

    def _options(self) -> dict[str, TableOption]:
        everywhere = self._table.program.options
        if self._verb is not self._table.program:
            everywhere = {name: option for name, option in everywhere.items() if name != "--version"}
        return {**self._verb.options, **everywhere}

    def _values(self, kind: ValueKind, current: str) -> Iterator[Candidate]:
        match kind:
            case list():
                yield from _beginning(dict.fromkeys(kind, ""), current)
            case "any":
                return
            case "setting":
                yield from self._settings(current)
            case "file" | "dir":
                yield Candidate(f"@{kind}")
            case _:
                yield from (found for found in self._known(kind) if found.value.startswith(current))

    def _settings(self, current: str) -> Iterator[Candidate]:
        name, equals, value = current.partition("=")
        if not equals:
            yield from _beginning({f"{name}=": "" for name in self._table.settings}, current)
            return
        pattern = name
        if name.startswith("model_providers.") and name.count(".") == 2:
            pattern = f"model_providers.NAME.{name.rpartition('.')[2]}"
        for found in self._values(self._table.settings.get(pattern, "any"), value):
            yield found if found.is_path else Candidate(f"{name}={found.value}", found.about)


def _beginning(about: dict[str, str], current: str) -> Iterable[Candidate]:
    return (Candidate(name, text) for name, text in about.items() if name.startswith(current))
