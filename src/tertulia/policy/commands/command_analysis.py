"""What a command consists of, for the decision whether it may run without asking.

Of shell scripts one kind is read: plain words, joined by `&&`, `||`, `;` and `|`. This is no shell parser, on purpose.
A script is read only where every shell reads it the same way, whatever its options, locale and version; anything else
(expansion, redirection, substitution, glob, brace, heredoc, assignment, comment, escape, a second line, any other
operator) is not read at all. Nothing is ever executed from what is read here.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from tertulia.lazy_pattern import lazy_pattern
from tertulia.policy.commands.git_repository import MAX_DIRECTORIES, git_starts_nothing
from tertulia.policy.commands.safe_programs import GIT_ENVIRONMENT, SYSTEM_DIRECTORIES, known_program, reads_only
from tertulia.protocol.ids import ConversationId

Words = tuple[str, ...]

MAX_CHARACTERS = 32_768
"""A longer script is not read: to read it would hold the loop, and a person has to see it anyway."""

# Letters beyond ASCII only in quotes: some shells take the bytes of some of them for blanks.
# The pieces of a word repeat in an atomic group: Python 3.11.2 (Debian 12) lets a possessive repeat of possessive
# pieces go on behind a piece that failed, and took a quote that is never closed for the end of a word.
_TOKEN = lazy_pattern(
    r"""[ \t]*+(?:(?P<join>&&|\|\||;|\|)|(?P<word>(?>(?:[A-Za-z0-9_./,:@%+=-]++|'[^']*+'|"[^"$`\\!]*+")+)))""",
)
_PIECE = lazy_pattern(r"""'([^']*+)'|"([^"]*+)"|([^'"]++)""")

_RESERVED = frozenset(
    {"!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if"}
    | {"in", "namespace", "select", "then", "time", "until", "while"}
)


class ShellScript(msgspec.Struct, frozen=True):
    """A script that was read whole."""

    commands: tuple[Words, ...]
    """At least one, each with at least one word; quotes are taken off."""
    joins: tuple[str, ...]
    """What stands between them: one less than there are commands."""

    @property
    def text(self) -> str:
        """The one spelling of this script: two scripts that have it in common run the same."""
        pieces = [shlex.join(self.commands[0])]
        for join, words in zip(self.joins, self.commands[1:], strict=True):
            pieces += (join, shlex.join(words))
        return " ".join(pieces)


def read_script(text: str) -> ShellScript | None:
    """The commands of a script, or None where it says more than plain words can. Takes linear time."""
    if len(text) > MAX_CHARACTERS:
        return None
    # Newline and carriage return are not printable, nor is anything that a screen shows as nothing.
    if not text.replace("\t", " ").isprintable():
        return None
    commands: list[Words] = []
    joins: list[str] = []
    words: list[str] = []
    position, end = 0, len(text.rstrip(" \t"))
    while position < end:
        token = _TOKEN.match(text, position, end)
        if token is None:
            return None
        position = token.end()
        if (word := token["word"]) is not None:
            words.append(_unquoted(word))
        elif words:
            commands.append(tuple(words))
            joins.append(token["join"])
            words = []
        else:
            return None
    if words:
        commands.append(tuple(words))
    elif joins and joins[-1] == ";":
        joins.pop()
    else:
        return None
    if any(_is_more_than_a_command(words[0]) for words in commands):
        return None
    return ShellScript(tuple(commands), tuple(joins))


def _unquoted(word: str) -> str:
    if "'" not in word and '"' not in word:
        return word
    return "".join(single or double or plain for single, double, plain in _PIECE.findall(word))


def _is_more_than_a_command(first: str) -> bool:
    """Whether it is an unquoted assignment or reserved word."""
    return "=" in first or first in _RESERVED


# No zsh: it reads some plain words differently, and more files before it starts.
SHELLS = frozenset(directory + shell for directory in SYSTEM_DIRECTORIES for shell in ("bash", "sh"))
SCRIPT_FLAGS = frozenset({"-c", "-lc"})


class CommandAnalysis(msgspec.Struct, frozen=True):
    """What is known of a command before it runs."""

    commands: tuple[Words, ...] | None
    """The single commands that it is made of; None where it could not be read and must be asked about."""
    known_safe: bool
    """By their words each of them only reads, in a `safe_environment`; see `only_reads_in` for the place."""
    canonical: Words
    """The one spelling of this command: two that have it in common run the same."""


def analyse_command(argv: Sequence[str]) -> CommandAnalysis:
    """Look at a command, and into the script that it hands to a shell."""
    words = tuple(argv)
    if not words or any("\0" in word for word in words):
        return CommandAnalysis(None, False, words)
    if words[0] not in SHELLS:
        return CommandAnalysis((words,), reads_only(words), words)
    script = _script_of(words)
    if script is None:
        return CommandAnalysis(None, False, words)
    canonical = (*words[:2], script.text)
    return CommandAnalysis(script.commands, all(map(reads_only, script.commands)), canonical)


def only_reads_in(reading: CommandAnalysis, cwd: str, roots: Sequence[str]) -> bool:
    """Whether a command that is known to be safe by its words is so in this directory too. Reads files.

    Only git depends on the directory: a repository's configuration can make it start programs. `roots` are the places
    where a command sees the same files as we do; without them no git is known to be safe.
    """
    commands = reading.commands or ()
    programs = [known_program(words[0]) for words in commands]
    if not reading.known_safe or "git" not in programs:
        return reading.known_safe
    places = {cwd}
    for words in (words for words, program in zip(commands, programs, strict=True) if program == "cd"):
        # It may fail, or hold only for one part of a pipe: so each of them counts with and without it.
        if len(words) != 2 or words[1].startswith("-") or len(places) > MAX_DIRECTORIES:
            return False
        gone = [os.path.join(place, words[1]) for place in places]
        # A shell resolves `..` in the text of the path, the system after following links.
        places |= {*gone, *map(os.path.normpath, gone)}
    return git_starts_nothing(places, roots)


def _script_of(words: Words) -> ShellScript | None:
    """Anything but `bash -c SCRIPT` is not looked into: a shell has many ways to be told what to run."""
    match words:
        case (_, flag, text) if flag in SCRIPT_FLAGS:
            return read_script(text)
        case _:
            return None


class GrantKey(msgspec.Struct, frozen=True, eq=False):
    """What a grant is found by. The moment it ends is no part of its identity."""

    path: Words
    """The command's canonical words, after the kind of request."""
    conversation: ConversationId | None = None
    """None: every conversation of the session."""
    expires_at: float | None = None
    """On the monotonic clock; None: it does not end by itself."""
    binding: str = ""
    """A digest of all else that it holds for: directory, environment, sandbox."""

    def _identity(self) -> tuple[object, ...]:
        return self.path, self.conversation, self.binding

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, GrantKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())


_DROPPED = frozenset(
    {
        "BASHOPTS",
        "CDPATH",
        "ENV",
        "GCONV_PATH",
        "GLOBIGNORE",
        "IFS",
        "LOCPATH",
        "NLSPATH",
        "POSIXLY_CORRECT",
        "SHELLOPTS",
    }
)
_DROPPED_BEGINNINGS = ("BASH_", "GIT_", "LD_", "RIPGREP_")
"""Files and libraries that are read before a command, functions in its place, and settings of git and ripgrep."""
_HOMES = ("HOME", "XDG_CONFIG_HOME")
_NOWHERE = "/nonexistent"


def safe_environment(variables: Mapping[str, str], writable: Sequence[str]) -> dict[str, str]:
    """These variables for a known-safe command: no program of a writable directory, or of the current one, is found.

    Without it an environment, or a configuration file of the workspace, could have a reader start other programs.
    """
    safe = {
        name: value
        for name, value in variables.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_BEGINNINGS)
    }
    # A login shell runs the profile that it finds at home, which it looks up itself where none is named; and git obeys
    # the settings there.
    safe.setdefault("HOME", _NOWHERE)
    safe |= {name: _NOWHERE for name in _HOMES if name in safe and _is_below(safe[name], writable)}
    folders = safe.get("PATH", "").split(":")
    trusted = [folder for folder in folders if folder.startswith("/") and not _is_below(folder, writable)]
    return {**safe, "PATH": ":".join(trusted) or "/usr/bin:/bin", **GIT_ENVIRONMENT}


def _is_below(folder: str, roots: Sequence[str]) -> bool:
    # Roots are canonical; a folder may be a link into one, or be spelled through one.
    if ".." in folder.split("/"):
        return True
    places = (f"{folder}/", f"{os.path.realpath(folder)}/")
    return any(place.startswith(f"{root.rstrip('/')}/") for place in places for root in roots)
