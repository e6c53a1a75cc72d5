"""What a model was sent with one request, made again from the record, and whether that is proved to be the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tertulia.errors import NotFoundError, TertuliaError
from tertulia.protocol.items import Item
from tertulia.protocol.records import ModelRequestRecord, TermsRecord
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedState
from tertulia.session.resume.replay_verification import (
    RebuiltHistory,
    RequestVerdict,
    request_instructions,
    request_items,
    verify_request,
)
from tertulia.session.resume.terms_codec import read_terms


class RecordedPrompt(msgspec.Struct, frozen=True):
    """One request of a stored session."""

    verdict: RequestVerdict
    request: ModelRequestRecord
    """With the digests of what was sent."""
    instructions: str
    tools: list[Any]
    """As they were sent, in the dialect of the model."""
    items: list[Item]
    model: str = ""
    """As `provider/model`; empty where it is not stored."""
    storage: StoragePolicy | None = None
    """The policy of the conversation at that time."""

    @property
    def sentence(self) -> str:
        """Whether this is what was sent, for people."""
        match self.verdict.outcome:
            case "same":
                return "rebuilt, byte for byte what was sent"
            case "different":
                return f"different: {self.verdict.because}"
            case "unknown":
                return f"cannot be proved: {self.verdict.because}"


def read_prompt(lines: Iterable[RecordLine], n: int) -> RecordedPrompt:
    """The request that is record `n`.

    Args:
        lines: The record from its beginning; read no further than that request.
        n: The number of the record of the request.

    Returns:
        Its parts and the verdict on them.

    Raises:
        NotFoundError: There is no request of that number.
    """
    return read_prompts(lines, (n,))[-1]


def read_prompts(lines: Iterable[RecordLine], numbers: Sequence[int]) -> list[RecordedPrompt]:
    """The requests of one conversation that are these records, read in one pass.

    Args:
        lines: The record from its beginning; read no further than the last of them.
        numbers: Their numbers, growing.

    Raises:
        NotFoundError: The last of them is no request. An earlier one that is none is left out.
    """
    past, history = RecordedState(), RebuiltHistory()
    found: list[RecordedPrompt] = []
    for line in lines:
        if line.n in numbers and isinstance(line.what, ModelRequestRecord):
            found.append(_rebuild(line, line.what, past, history))
            if line.n == numbers[-1]:
                return found
        past.read((line,))
    raise NotFoundError(f"record {numbers[-1]} is no request to a model")


def _rebuild(
    line: RecordLine, request: ModelRequestRecord, past: RecordedState, history: RebuiltHistory
) -> RecordedPrompt:
    found = past.conversations.get(request.conversation_id)
    conversation = found or RecordedConversation(request.conversation_id)
    verdict = verify_request(line, request, conversation, history, past.damaged)
    try:
        instructions = request_instructions(request, conversation)
    except TertuliaError:
        # The verdict says that they are not stored.
        instructions = ""
    agreed = conversation.agreed
    return RecordedPrompt(
        verdict,
        request,
        instructions,
        _tools(request),
        request_items(request, conversation),
        request.model or _model(agreed),
        None if agreed is None else agreed.storage,
    )


def _model(agreed: TermsRecord | None) -> str:
    try:
        return "" if agreed is None else read_terms(agreed).model
    except TertuliaError:
        return ""


def _tools(request: ModelRequestRecord) -> list[Any]:
    try:
        return msgspec.json.decode(request.tools_json, type=list[Any])
    except msgspec.DecodeError:
        return []
