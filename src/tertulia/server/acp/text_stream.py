"""What the model says and thinks, in ACP's pieces: each character once, whatever got lost on the way."""

from __future__ import annotations

from typing import Any, Literal

from tertulia.protocol.events import AgentMessage, AgentMessageDelta, AgentReasoning, AgentReasoningDelta
from tertulia.protocol.ids import ItemId

Update = dict[str, Any]
"""One `update` of a `session/update`, in ACP's spelling."""
ChunkKind = Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]


def text_block(text: str) -> dict[str, str]:
    """A text as ACP's content."""
    return {"type": "text", "text": text}


def chunk_update(voice: ChunkKind, content: dict[str, Any], item_id: ItemId | None = None) -> Update:
    """A piece of a message. Pieces of one message have its id."""
    update: Update = {"sessionUpdate": voice, "content": content}
    return update if item_id is None else {**update, "messageId": item_id}


def remark_update(text: str) -> Update:
    """A remark of ours, which is not part of the answer."""
    return chunk_update("agent_thought_chunk", text_block(f"{text}\n"))


class TextStream:
    """Pieces come as they are said. Where one is missing the rest of that message waits until all of it is there."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[ItemId, int] = {}
        """Characters of each message that is not whole yet."""

    def piece(self, data: AgentMessageDelta | AgentReasoningDelta) -> Update | None:
        """A delta; None where nothing of it is new, or something before it is missing."""
        sent = self._sent.get(data.item_id, 0)
        text = data.text[sent - data.offset :] if data.offset <= sent else ""
        if not text:
            return None
        self._sent[data.item_id] = sent + len(text)
        voice: ChunkKind = "agent_message_chunk" if isinstance(data, AgentMessageDelta) else "agent_thought_chunk"
        return chunk_update(voice, text_block(text), data.item_id)

    def whole(self, data: AgentMessage | AgentReasoning) -> Update | None:
        """A message is complete: what of it was not sent yet."""
        rest = data.text[self._sent.pop(data.item_id, 0) :]
        if not rest:
            return None
        voice: ChunkKind = "agent_message_chunk" if isinstance(data, AgentMessage) else "agent_thought_chunk"
        return chunk_update(voice, text_block(rest), data.item_id)

    def begin_again(self) -> Update | None:
        """The model is asked anew. ACP cannot take back what was shown, so that is said."""
        shown, self._sent = bool(self._sent), {}
        return remark_update("The answer was cut off and begins again.") if shown else None
