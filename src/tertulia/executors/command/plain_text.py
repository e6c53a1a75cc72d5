"""The output of an agent that writes plain text: all of it is the answer. Its exit code says whether it failed."""

from __future__ import annotations

import codecs
from io import StringIO

from tertulia.executors.executor import AgentDelta, AgentText, ForeignOutput, RunFinished, Step
from tertulia.protocol.inputs import MAX_TEXT_BYTES

_ID = "text"


class PlainText:
    """See `executor.Parser`. What goes beyond the limit of texts is dropped, and a note says so."""

    def __init__(self, *, max_bytes: int = MAX_TEXT_BYTES) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text = StringIO()
        self._room = max_bytes
        self._dropped = 0

    @property
    def passed_over(self) -> int:
        """Always none: everything makes sense."""
        return 0

    @property
    def ended(self) -> bool:
        """Never before the output has."""
        return False

    async def feed(self, chunk: bytes) -> list[Step]:
        """The characters that these bytes make whole."""
        return self._add(chunk, final=False)

    async def end(self) -> list[Step]:
        """The last steps, with the whole answer."""
        steps = self._add(b"", final=True)
        answer = self._text.getvalue().strip()
        steps += [AgentText(_ID, answer)] if answer else []
        steps += [ForeignOutput({"dropped_bytes": self._dropped})] if self._dropped else []
        return [*steps, RunFinished(answer or None)]

    def _add(self, chunk: bytes, *, final: bool) -> list[Step]:
        data = chunk[: self._room]
        self._room -= len(data)
        self._dropped += len(chunk) - len(data)
        piece = self._decode(data, final)
        self._text.write(piece)
        return [AgentDelta(_ID, piece)] if piece else []
