"""Reads a profile of Seatbelt and says what it allows: the last rule that fits counts. For tests, on any system."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"]+))')
_SCRIPTED = {"com.apple.sandbox.pty"}


class Word(str):
    """What stands without quotes."""

    __slots__ = ()


def parsed(text: str) -> list[Any]:
    """The rules, as lists of words, texts and lists."""
    stack: list[list[Any]] = [[]]
    at = 0
    while (found := _TOKEN.match(text, at)) is not None:
        at = found.end()
        opens, closes, quoted, word = found.groups()
        if opens:
            stack.append([])
        elif closes:
            inner = stack.pop()
            stack[-1].append(inner)
        elif word is None:
            stack[-1].append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            stack[-1].append(Word(word))
    assert not text[at:].strip(), text[at : at + 40]
    assert len(stack) == 1, "a bracket is open"
    return stack[0]


class Profile:
    """A profile that was read."""

    def __init__(self, text: str) -> None:
        (self.version, *self.rules) = parsed(text)
        assert self.version == ["version", "1"]

    def allows(self, operation: str, subject: str = "", *extensions: str) -> bool:
        """Whether it allows the operation on a path, or on a name of what else there is."""
        verdict = "deny"
        for rule in self.rules:
            operations = [word for word in rule[1:] if isinstance(word, Word)]
            filters = [part for part in rule[1:] if isinstance(part, list)]
            assert operations, rule
            if any(_covers(word, operation) for word in operations) and (
                not filters or any(_fits(part, subject, extensions) for part in filters)
            ):
                verdict = str(rule[0])
        return verdict == "allow"

    def may_write(self, path: str) -> bool:
        """Make, fill or remove a file there; of a part of these a test would have to say which."""
        answers = {self.allows(f"file-write-{act}", path) for act in ("create", "data", "unlink", "mode")}
        assert len(answers) == 1, path
        return answers.pop()

    def may_read(self, path: str) -> bool:
        """Look at a file or its content there."""
        answers = {self.allows(f"file-read-{act}", path) for act in ("data", "metadata", "xattr")}
        assert len(answers) == 1, path
        return answers.pop()

    def may_move(self, source: str, target: str) -> bool:
        """Rename one into the other."""
        return self.allows("file-write-unlink", source) and self.allows("file-write-create", target)


def _covers(word: str, operation: str) -> bool:
    if word == "default":
        return True
    return operation.startswith(word[:-1]) if word.endswith("*") else word == operation


def _fits(part: list[Any], subject: str, extensions: tuple[str, ...]) -> bool:
    match part:
        case ["literal", text]:
            return subject == text
        case ["subpath", text]:
            return subject == text or subject.startswith(text.rstrip("/") + "/")
        case ["regex", text]:
            return re.search(text, subject) is not None
        case ["require-all", *inner]:
            return all(_fits(one, subject, extensions) for one in inner)
        case ["extension", text]:
            assert text in _SCRIPTED
            return text in extensions
        case ["remote" | "local", "ip", "*:*"]:
            return subject.startswith("ip ")
        case ["target", "same-sandbox"]:
            return subject == "same-sandbox"
        case ["global-name", text]:
            return subject == text
        case _:
            raise AssertionError(f"{part} is not known")
