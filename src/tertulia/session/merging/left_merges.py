"""Recovers merges that were interrupted when their process was killed: when a session starts, and before a merge."""

from __future__ import annotations

from pathlib import Path

from tertulia.errors import TertuliaError
from tertulia.events.bus import EventScope
from tertulia.protocol.events import WarningEvent
from tertulia.session.merging.journal import TreeJournal, tree_journals
from tertulia.session.merging.recovery import recover, subject
from tertulia.session.parts import SessionParts

RECOVERED = "merge_recovered"
NOT_RECOVERED = "merge_not_recovered"


async def recover_left(parts: SessionParts, folder: Path | None = None) -> None:
    """Recover all merges and restores that no living process works on, of any tree, whose journals lie in a folder."""
    for place in tree_journals(folder or parts.environment.merges):
        if (number := place.hold()) is not None:
            try:
                await recover_held(parts, place)
            finally:
                place.release(number)
    # Published after the start, so that clients see it.
    await parts.bus.flush()


async def recover_held(parts: SessionParts, place: TreeJournal) -> None:
    """Recover the merge into a tree that this process has locked, if one was left; returns the outcome."""
    if (journal := place.load()) is None:
        return
    try:
        recovery = await recover(place, journal, parts.environment.variables)
    except (TertuliaError, OSError) as error:
        text = f"{subject(journal)} was cut short and could not be taken back: {error}"
        parts.bus.publish(WarningEvent(text, NOT_RECOVERED), EventScope(""))
        return
    if recovery is not None:
        code = NOT_RECOVERED if recovery.result == "left" else RECOVERED
        text = f"a process was killed while it {'restored' if journal.is_restore else 'merged'}: {recovery.text}"
        parts.bus.publish(WarningEvent(text, code, list(recovery.paths) or None), EventScope(""))
