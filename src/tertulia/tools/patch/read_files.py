"""Which files the models of a session have read, and how they were: a file that has changed since is not edited.

Of a file a digest is kept and, for each line, a number that tells it from others; no text.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.tools.patch.new_lines import GONE, VIEW_AGAIN, line_numbers, new_lines

MAX_FILES = 256
"""Of a conversation; of more, those that were read last are remembered."""


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
        files[path] = _ReadFile(_digest(content), line_numbers(content))
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
            return GONE
        text = new_lines(read.lines, content)
        if text is None:
            return VIEW_AGAIN
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
