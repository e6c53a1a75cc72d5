"""History plus what is only for this one request, as one thing to walk and one thing to send.

Nothing is concatenated: the items are walked where they lie, and the bytes were made when each segment was sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tertulia.history.sanitiser import closing_outputs
from tertulia.history.store import HistoryStore, HistoryView
from tertulia.models.wire import Dialect
from tertulia.protocol.items import Item

_STILL_OPEN = "no result yet: the call is still open"


class PromptView:
    """What the model reads, oldest first. Does not change when the history goes on."""

    __slots__ = ("chunks", "extra", "history")

    def __init__(self, history: HistoryView, chunks: tuple[bytes, ...], extra: tuple[Item, ...]) -> None:
        self.history = history
        self.chunks = chunks
        """The same in the dialect of the wire: comma-joined JSON values, no chunk empty."""
        self.extra = extra

    def __iter__(self) -> Iterator[Item]:
        return chain(self.history, self.extra)

    def __len__(self) -> int:
        return len(self.history) + len(self.extra)


def build_prompt_view(store: HistoryStore, dialect: Dialect, extra_pending: Sequence[Item] = ()) -> PromptView:
    """The one function that joins a history with a turn's own items.

    Every call in it has an output: pairing was proved segment by segment, and a call that is still open (a
    compaction while the conversation waits) is answered here, for this request only.
    """
    history = store.snapshot()
    extra = (*closing_outputs(store.open_call_items(), _STILL_OPEN), *extra_pending)
    chunks = store.encoded(dialect)
    if extra:
        tail = dialect.encode_items(extra)
        chunks = (*chunks, tail) if tail else chunks
    return PromptView(history, chunks, extra)
