"""Which git commands may write a conversation's own repository where `allow_git` is on, by their words.

One plain command of a few verbs, with options that are listed: nothing that writes the working tree, chooses another
repository, sets configuration, opens an editor or starts a program. It reads words; `git_repository` looks at files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from tertulia.policy.commands.command_analysis import analyse_command
from tertulia.policy.commands.safe_programs import known_program, words

Takes = Literal["everything", "tracked", "index", "nothing"]
"""What a command takes into the repository: files of the working tree, those of them that are tracked, the index."""


class GitWrite(msgspec.Struct, frozen=True):
    """A git command that may be run for a conversation."""

    verb: str
    arguments: tuple[str, ...]
    """All words after the verb, as they were written."""
    takes: Takes
    paths: tuple[str, ...] = ()
    """What it names of the working tree; none: all of it."""
    ignored_too: bool = False
    """Whether files that git is told to ignore count as well."""


class GitReading(NamedTuple):
    """What is known of a command in which git is used."""

    write: GitWrite | None
    """None: it is not one that may be run for a conversation."""
    reason: str = ""
    """Why it is not, in words for the model."""


class _Verb(NamedTuple):
    """The options of a verb: letters that may stand together, letters that take what follows, and long names."""

    flags: str
    valued: str
    long_flags: frozenset[str]
    long_valued: frozenset[str]


class _Parsed(NamedTuple):
    options: frozenset[str]
    """Single letters without their dash, and long names."""
    names: tuple[str, ...]
    """What is neither an option nor the value of one."""


_VERBS: Mapping[str, _Verb] = {
    "add": _Verb("AfNnuv", "", words("all dry-run force ignore-errors intent-to-add update verbose"), words("chmod")),
    "branch": _Verb("dq", "", words("delete no-track quiet"), frozenset()),
    "commit": _Verb(
        "anqs",
        "Fm",
        words(
            "all allow-empty allow-empty-message amend no-edit no-gpg-sign no-verify only quiet reset-author signoff"
        ),
        words("author date file message"),
    ),
    "tag": _Verb("a", "Fm", words("annotate"), words("file message")),
}
GIT_VERBS = tuple(_VERBS)
_MESSAGE = words("m F message file")


def read_git(argv: Sequence[str]) -> GitReading | None:
    """What a command does with git; None where git is not in it, as far as that can be told."""
    commands = analyse_command(argv).commands
    if commands is None:
        uses = any("git" in word.replace("/", " ").split() for word in argv)
        return GitReading(None, "it is not one plain command") if uses else None
    uses = [command for command in commands if known_program(command[0]) == "git"]
    if not uses:
        return None
    if len(commands) > 1:
        return GitReading(None, "it is more than one command: run each `git` command alone")
    return _read_words(uses[0][1:])


def _read_words(arguments: Sequence[str]) -> GitReading:
    if not arguments or arguments[0] not in _VERBS:
        argument = arguments[0] if arguments else ""
        if argument.startswith("-"):
            return GitReading(None, f"no option may stand before the verb, and {argument[:80]!r} does")
        return GitReading(None, f"`git {argument[:80]}` is not among {', '.join(GIT_VERBS)}")
    verb, rest = arguments[0], tuple(arguments[1:])
    parsed = _parse(_VERBS[verb], rest)
    if isinstance(parsed, str):
        return GitReading(None, f"the option {parsed[:80]!r} of `git {verb}` is not listed")
    match verb:
        case "add":
            return GitReading(_add(rest, parsed))
        case "commit":
            return _commit(rest, parsed)
        case _:
            return _named(verb, rest, parsed)


def _add(arguments: tuple[str, ...], parsed: _Parsed) -> GitWrite:
    takes: Takes = "tracked" if parsed.options & {"u", "update"} else "everything"
    return GitWrite("add", arguments, takes, parsed.names, bool(parsed.options & {"f", "force"}))


def _commit(arguments: tuple[str, ...], parsed: _Parsed) -> GitReading:
    if not (parsed.options & _MESSAGE or {"amend", "no-edit"} <= parsed.options):
        return GitReading(None, "there is no editor: give the message with `-m`")
    takes: Takes = "tracked" if parsed.names or parsed.options & {"a", "all"} else "index"
    return GitReading(GitWrite("commit", arguments, takes, parsed.names))


def _named(verb: str, arguments: tuple[str, ...], parsed: _Parsed) -> GitReading:
    if not parsed.names:
        return GitReading(None, f"`git {verb}` without a name only lists")
    if parsed.options & {"a", "annotate"} and not parsed.options & _MESSAGE:
        return GitReading(None, "there is no editor: give the message with `-m`")
    return GitReading(GitWrite(verb, arguments, "nothing"))


def _parse(verb: _Verb, arguments: Sequence[str]) -> _Parsed | str:
    """The options and the rest; or the word that is not listed."""
    options: set[str] = set()
    names: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word == "--":
            names.extend(reversed(waiting))
            break
        if not word.startswith("-") or word == "-":
            names.append(word)
            continue
        found = _long(verb, word) if word.startswith("--") else _letters(verb, word)
        if found is None:
            return word
        options |= found.options
        if found.takes_next:
            if not waiting:
                return word
            waiting.pop()
    return _Parsed(frozenset(options), tuple(names))


class _Option(NamedTuple):
    options: frozenset[str]
    takes_next: bool


def _long(verb: _Verb, word: str) -> _Option | None:
    name, equals, _ = word[2:].partition("=")
    if name in verb.long_valued:
        return _Option(frozenset({name}), not equals)
    return _Option(frozenset({name}), False) if name in verb.long_flags and not equals else None


def _letters(verb: _Verb, word: str) -> _Option | None:
    for position, letter in enumerate(word[1:], 1):
        if letter in verb.valued:
            return _Option(frozenset(word[1 : position + 1]), position == len(word) - 1)
        if letter not in verb.flags:
            return None
    return _Option(frozenset(word[1:]), False)
