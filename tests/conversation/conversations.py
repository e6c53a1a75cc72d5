"""Terms and conversations in a few words, for the tests of conversations and their tasks."""

from __future__ import annotations

from typing import Any

from tertulia.conversation.resolve_terms import TermsBase
from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import ConversationContext, Terms, tool_preferences
from tertulia.errors import InvalidParamsError
from tertulia.mcp.view import McpView
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import Wire
from tertulia.policy.rights import TOP, Rights
from tertulia.protocol.conversation_fields import ShellMode
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item
from tertulia.protocol.records import ItemsRecord, Record
from tests.events.scripted import StillClock
from tests.prompt.specs import mcp

WIRE = ScriptedModel(name="acme/one", family="acme")
OTHER_WIRE = ScriptedModel(name="acme/two", family="acme")
SERVERS = (mcp("fs", "read"), mcp("fs", "write"), mcp("web", "get"))


def terms(
    rights: Rights = TOP,
    *,
    base: str | None = None,
    user: str | None = None,
    wire: Wire = WIRE,
    shell_mode: ShellMode | None = None,
    cwd: str = "/work",
) -> Terms:
    """Terms under these rights, with a view of all servers."""
    view = McpView(SERVERS, rights.mcp_tool_allowlist)
    context = ConversationContext(base, user, view, tool_preferences(rights, wire, shell_mode))
    return Terms(context, rights, wire, "native", cwd, shell_mode)


def find_wire(model: object) -> Wire:
    """Knows one model besides the default."""
    if model == "acme/two":
        return OTHER_WIRE
    raise InvalidParamsError(f"model {model!r}: no provider of that name")


def terms_base(default: Terms | None = None, ceiling: Rights = TOP, because: str = "session") -> TermsBase:
    """What new terms are measured against."""
    return TermsBase(default or terms(ceiling), ceiling, because, find_wire)


class KeepingJournal:
    """Remembers what it was given to keep."""

    def __init__(self) -> None:
        self.kept: list[Record] = []

    def write(self, event: Any, storage: Any = None) -> None:
        raise AssertionError("a conversation publishes nothing by itself")

    def keep(self, record: Record) -> None:
        self.kept.append(record)

    def watch(self, settled: Any) -> bool:
        """Nothing is resolved later."""
        return False

    def hurry(self) -> None:
        """It is never slow of its own accord."""

    async def settle(self) -> None:
        """Nothing to wait for."""

    async def close(self) -> None:
        """Nothing to let go of."""

    @property
    def items(self) -> list[Item]:
        """All that was said, in order."""
        return [item for record in self.kept if isinstance(record, ItemsRecord) for item in record.items]


def make_conversation(
    conversation_terms: Terms | None = None, *, clock: StillClock | None = None, journal: KeepingJournal | None = None
) -> ConversationState:
    """A conversation that has not been seeded."""
    return ConversationState(
        ConversationId("c"),
        conversation_terms or terms(),
        clock=clock or StillClock(1.0),
        journal=journal or KeepingJournal(),
    )
