"""The one kind of shell script that we can read: plain words, joined by `&&`, `||`, `;` and `|`.

Not a shell parser, on purpose. A script is read only where every shell reads it the same way, whatever its options,
locale and version; anything else (expansion, redirection, substitution, glob, brace, heredoc, assignment, comment,
escape, a second line, any other operator) is not read at all. Nothing is ever executed from what is read here.
"""

from __future__ import annotations

import re
import shlex

import msgspec

Words = tuple[str, ...]

MAX_CHARACTERS = 32_768
"""A longer script is not read: to read it would hold the loop, and a person has to see it anyway."""

# Letters beyond ASCII only in quotes: some shells take the bytes of some of them for blanks.
_TOKEN = re.compile(
    r"""[ \t]*+(?:(?P<join>&&|\|\||;|\|)|(?P<word>(?:[A-Za-z0-9_./,:@%+=-]++|'[^']*+'|"[^"$`\\!]*+")++))""",
)
_PIECE = re.compile(r"""'([^']*+)'|"([^"]*+)"|([^'"]++)""")

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
    """An assignment or a reserved word, unless it was quoted; nobody quotes it for a good reason."""
    return "=" in first or first in _RESERVED
