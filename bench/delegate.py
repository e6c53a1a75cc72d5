"""What it costs to ask another conversation: caller, child, caller, beyond the three model turns themselves.

Both sides are measured in one run, in turns, with the same model and the same session; the best of several rounds.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import tertulia
from tertulia.events.journal import NoJournal
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say

Row = tuple[str, float, str, str]
ROUNDS = 7
TIMES = 60


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    return asyncio.run(_delegations())


def _model(request: ScriptedRequest) -> Any:
    match request.last_input:
        case "create":
            return say("", call("conv_create", {"user_instruction": "do it"}))
        case text if text.startswith("send "):
            return say("", call("conv_send", {"conversation_id": text[5:], "text": "do it"}))
        case _:
            return say("A short answer of a few words.")


async def _delegations() -> list[Row]:
    limits = {"max_conversations": 100_000}
    settings = tertulia.Settings(model=ScriptedModel([_model], repeat=True), limits=limits)
    async with tertulia.Session.start(settings, journal=NoJournal()) as session:
        other = await session.open()
        turns: list[float] = []
        creates: list[float] = []
        sends: list[float] = []
        for _ in range(ROUNDS):
            turns.append(await _cpu(session, "a question") * 3)
            creates.append(await _cpu(session, "create"))
            sends.append(await _cpu(session, f"send {other.id}"))
        return [
            ("three turns", min(turns), "ms CPU", ""),
            ("conv_create, beyond its three turns", min(creates) - min(turns), "ms CPU", "<= 2"),
            ("conv_send, beyond its three turns", min(sends) - min(turns), "ms CPU", "<= 2"),
        ]


async def _cpu(session: tertulia.Session, text: str) -> float:
    """Milliseconds of CPU for one message, in a conversation of its own so that none grows long."""
    caller = await session.open()
    gc.collect()
    begun = time.process_time()
    for _ in range(TIMES):
        reply = await caller.message(text)
        assert reply.status == "completed"
    spent = time.process_time() - begun
    await caller.close()
    return spent / TIMES * 1000
