"""One request, put together: instructions, history, tools, cache key. Costs what is new, not what is old."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tertulia.history.store import HistoryStore
from tertulia.models.wire import ModelRequest, Wire
from tertulia.prompt.instructions import cache_key, full_instructions
from tertulia.prompt.request import build_prompt_view
from tertulia.prompt.tool_list import OfferedTools
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item
from tertulia.protocol.storage import Full, StoragePolicy, Ttl


class RequestInputs(msgspec.Struct, frozen=True):
    """What a request is made for."""

    conversation_id: ConversationId
    wire: Wire
    override: str | None
    """The conversation's base instructions, or a compact turn's own; None for the built-in text."""
    tools: OfferedTools
    storage: StoragePolicy
    output_schema: str | None = None


def build_request(asking: RequestInputs, store: HistoryStore, extra_pending: Sequence[Item] = ()) -> ModelRequest:
    """The request for the history as it is now."""
    wire, tools = asking.wire, asking.tools
    instructions = full_instructions(asking.override, has_apply_patch="apply_patch" in tools.names, family=wire.family)
    view = build_prompt_view(store, wire.dialect, extra_pending)
    return ModelRequest(
        conversation_id=asking.conversation_id,
        model=wire.name,
        instructions=instructions,
        items=view,
        chunks=view.chunks,
        tools=tools.specs,
        tools_json=tools.encoded(wire.dialect),
        cache_key=cache_key(instructions, tools.digest, wire.family),
        store=isinstance(asking.storage, Full | Ttl) and store.may_be_kept_elsewhere,
        output_schema=asking.output_schema,
    )
