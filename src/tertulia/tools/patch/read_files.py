"""Which files the models of a session have read, and how they were: a file that has changed since is not edited.

Of a file a digest is kept and, for each line, a number that tells it from others; no text.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict

import msgspec

from tertulia.protocol.ids import ConversationId

MAX_FILES = 256
"""Of a conversation; of more, those that were read last are remembered."""
_GONE = "There is no such file any more."
_VIEW_AGAIN = "View it again."
MAX_LINES = 100_000
"""A file with more is compared as a whole, without its lines."""
_SHOWN_LINES = 60
_SHOWN_CHARACTERS = 6_000


class _ReadFile(msgspec.Struct, frozen=True):
    digest: bytes
    lines: array[int] | None


class ReadFiles:
    """Implements `ConversationResource`: what a conversation has read is forgotten when it is closed."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[ConversationId, OrderedDict[str, _ReadFile]] = {}

    def note(self, conversation: ConversationId, path: str, content: bytes | None, *, only_known: bool = False) -> None:
        """The model has read this file, or written it. None: there is none any more.

        `only_known`: it is noted only where the model has read the file before.
        """
        files = self._of(conversation)
        known = files.pop(path, None)
        if content is None or (only_known and known is None):
            return
        files[path] = _ReadFile(_digest(content), _numbers(content))
        if len(files) > MAX_FILES:
            files.popitem(last=False)

    def changed(self, conversation: ConversationId, path: str, content: bytes | None) -> str | None:
        """What has changed since the model read the file, for the model; None where nothing has, or it has not read it.

        The model knows it then: where all of it is in the answer, the file counts as read.
        """
        read = self._of(conversation).get(path)
        if read is None or (content is not None and read.digest == _digest(content)):
            return None
        if content is None:
            self.forget_file(conversation, path)
            return _GONE
        text = _new_lines(read.lines, content)
        if text is None:
            return _VIEW_AGAIN
        self.note(conversation, path, content)
        return text

    def forget_file(self, conversation: ConversationId, path: str) -> None:
        """It is not known how the file is now."""
        self._of(conversation).pop(path, None)

    def _of(self, conversation: ConversationId) -> OrderedDict[str, _ReadFile]:
        return self._files.setdefault(conversation, OrderedDict())

    async def forget(self, conversation: ConversationId) -> None:
        """Forget all that a closed conversation has read."""
        self._files.pop(conversation, None)

    async def close(self) -> None:
        """Forget everything: the session is closed."""
        self._files.clear()


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _numbers(content: bytes) -> array[int] | None:
    """For each line a number that tells it from others; None where there are too many."""
    if content.count(b"\n") >= MAX_LINES:
        return None
    return array("q", map(hash, content.split(b"\n")))


def difference(before: bytes | None, now: bytes | None) -> str:
    """What a model has to know of a file that changed meanwhile; None: there was none, or is none any more."""
    if now is None:
        return _GONE
    if before == now:
        return "It was written again, with the same content: make your change again."
    return _new_lines(_numbers(before or b""), now) or _VIEW_AGAIN


def _new_lines(before: array[int] | None, content: bytes) -> str | None:
    """The lines from the first to the last that differ, with their numbers; None where they are too many."""
    lines, now = content.split(b"\n"), _numbers(content)
    if before is None or now is None:
        return None
    head, shorter = 0, min(len(before), len(now))
    while head < shorter and before[head] == now[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == now[-1 - tail]:
        tail += 1
    gone, new = len(before) - tail - head, lines[head : len(lines) - tail]
    text = "\n".join(f"{head + at + 1}\t{line.decode('utf-8', 'replace')}" for at, line in enumerate(new))
    if len(new) > _SHOWN_LINES or len(text) > _SHOWN_CHARACTERS:
        return None
    if not new:
        return f"{_lines(gone)} after line {head} were removed. Look whether your change still fits, and make it again."
    where = f"Lines {head + 1} to {head + len(new)} are new (in place of {gone or 'none'})"
    return f"{where}:\n{text}\nLook whether your change still fits, and make it again."


def _lines(count: int) -> str:
    return f"{count:,} line{'s' * (count != 1)}"
