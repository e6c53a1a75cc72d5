"""Session tokens in texts that come piece by piece: what one piece hides the next must not complete.

Eight characters of a token may be seen, so nothing is held back: by its ninth it is known.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from msgspec.structs import replace

from tertulia.policy.live_tokens import INSTEAD, LiveTokens
from tertulia.protocol.events import AgentMessageDelta, AgentReasoningDelta, EventData
from tertulia.protocol.tool_events import ExecCommandOutputDelta

_RUN = re.compile(r"[0-9a-f]+")
_END = re.compile(r"[0-9a-f]{1,72}\Z")
_STREAMS = 256


class TokenStreams:
    """The texts that are being written just now."""

    def __init__(self, tokens: LiveTokens) -> None:
        self._tokens = tokens
        self._open: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Of each the digits at its end, as they came, and how much of it was let through."""

    def clean(self, data: EventData) -> EventData:
        """A piece without what belongs to a token, at its place in what was let through; anything else as it is."""
        if not isinstance(data, AgentMessageDelta | AgentReasoningDelta | ExecCommandOutputDelta):
            return data
        before, let_through = self._open.pop(data.item_id, ("", data.offset)) if data.offset else ("", 0)
        whole = before + data.text
        text = self._piece(whole, len(before))
        end = _END.search(whole)
        self._open[data.item_id] = ("" if end is None else end[0], let_through + len(text))
        if len(self._open) > _STREAMS:
            self._open.popitem(last=False)
        same = text == data.text and let_through == data.offset
        return data if same else replace(data, text=text, offset=let_through)

    def _piece(self, whole: str, begin: int) -> str:
        out, done = "", begin
        for run in _RUN.finditer(whole):
            for start, end in self._tokens.hidden(run[0]):
                start, end = start + run.start(), end + run.start()
                if end > done:
                    out += whole[done:start] + (INSTEAD if start >= begin else "")
                    done = end
        return out + whole[done:]
