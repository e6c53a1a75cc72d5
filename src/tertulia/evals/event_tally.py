"""What a run did and spent, counted from the events of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tertulia.protocol.events import AgentMessage, ConversationOpened, Event, TokenCount
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.session.session import Session

_REFUSAL_CODES = frozenset({"no_approver", "approval_denied"})
_TYPES = tuple(kind.type for kind in (AgentMessage, ConversationOpened, TokenCount, ToolCallEnd))
_MAX_CALLS = 10_000


class _Refusal(msgspec.Struct, frozen=True):
    """The output of a call that was refused."""

    ok: bool
    code: str


class EventTally:
    """Counts while the session runs."""

    def __init__(self, spend: Callable[[int, float | None], bool]) -> None:
        """`spend` is called with the tokens and the cost of each request; True stops the run."""
        self._spend = spend
        self._titles: dict[ConversationId, str] = {}
        self._answers: dict[ConversationId, str] = {}
        self.stopped = asyncio.Event()
        """Set when the run is to be stopped, because it has spent too much."""
        self.calls: list[tuple[str, bool]] = []
        self.refusals: list[str] = []
        """The names of tools whose call was refused by policy."""
        self.usage = NO_USAGE
        self.requests = 0
        self.cost_usd: float | None = 0.0
        """None as soon as a request was made whose price is not known."""

    async def follow(self, session: Session) -> None:
        """Count the events of a session, until it is closed."""
        async for event in session.events(after=0, types=_TYPES):
            self.take(event)

    def take(self, event: Event) -> None:
        """Count one event; those of other types are ignored."""
        match event.data:
            case TokenCount(usage=usage, cost_usd=cost):
                self.usage += usage
                self.requests += 1
                self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
                if self._spend(usage.input_tokens + usage.output_tokens, cost):
                    self.stopped.set()
            case ToolCallEnd(name=name, success=success, output=output) if len(self.calls) < _MAX_CALLS:
                self.calls.append((name, success))
                if not success and _is_refusal(output):
                    self.refusals.append(name)
            case ConversationOpened(parent_id=parent, title=title) if parent is not None and event.conversation_id:
                self._titles[event.conversation_id] = title or ""
            case AgentMessage(text=text) if event.conversation_id:
                self._answers[event.conversation_id] = text
            case _:
                pass

    def conversations(self) -> tuple[tuple[str, str], ...]:
        """The conversations that were opened: title, and the last answer."""
        return tuple((title, self._answers.get(id, "")) for id, title in self._titles.items())


def _is_refusal(output: str) -> bool:
    try:
        refusal = msgspec.json.decode(output, type=_Refusal)
    except (msgspec.DecodeError, RecursionError):
        return False
    return not refusal.ok and refusal.code in _REFUSAL_CODES
