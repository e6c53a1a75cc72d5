"""What a request was made of, by digest: whoever rebuilds the same parts can prove that he has them all.

Costs what it takes to hash instructions and tools; the history's digest was made when its segments were sealed.
"""

from __future__ import annotations

import hashlib

from tertulia.history.view import HistoryView
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.records import ModelRequestRecord
from tertulia.protocol.storage import StoragePolicy


def fingerprint_request(
    asker: tuple[ConversationId, TaskId],
    instructions: str,
    tools_json: bytes,
    history: HistoryView,
    *,
    override: str | None = None,
    output_schema: str | None = None,
    storage: StoragePolicy | None = None,
    summarises: tuple[tuple[int, int], ...] = (),
) -> ModelRequestRecord:
    """The record of one request. `override` is given where the instructions were those of this task only."""
    parts = (
        hashlib.sha256(instructions.encode()).hexdigest(),
        hashlib.sha256(tools_json).hexdigest(),
        history.digest.hex(),
        "" if output_schema is None else hashlib.sha256(output_schema.encode()).hexdigest(),
    )
    conversation_id, task_id = asker
    return ModelRequestRecord(
        conversation_id=conversation_id,
        task_id=task_id,
        instructions=parts[0],
        tools=parts[1],
        history=parts[2],
        items=len(history),
        prompt=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        tools_json=tools_json,
        override=override,
        output_schema=output_schema,
        storage=storage,
        summarises=summarises,
    )
