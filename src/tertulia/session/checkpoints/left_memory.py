"""Removes what killed sessions have left in memory of checkpoints that nothing may store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tertulia.errors import TertuliaError
from tertulia.session.checkpoints.places import drop_memory, hold_memory, memory_folders
from tertulia.session.merging.journal import tree_journals
from tertulia.session.merging.recovery import recover
from tertulia.session.worktrees.held_file import release_file


async def drop_left_memory(variables: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Remove the folders that no living process has, restores in the middle taken back or finished before.

    Returns how many, and why one stays.
    """
    dropped, troubles = 0, list[str]()
    for folder in memory_folders():
        if (number := hold_memory(folder)) is None:
            continue
        try:
            await _recover_all(folder / "journals", variables)
        except (TertuliaError, OSError) as error:
            # Its objects are needed to bring the files back.
            release_file(folder.with_suffix(".lock"), number)
            troubles.append(f"a restore of a killed session could not be taken back ({folder}): {error}")
            continue
        drop_memory(folder, number)
        dropped += 1
    return dropped, tuple(troubles)


def count_left_memory() -> int:
    """How many there are to remove."""
    found = 0
    for folder in memory_folders():
        if (number := hold_memory(folder)) is not None:
            release_file(folder.with_suffix(".lock"), number)
            found += 1
    return found


async def _recover_all(journals: Path, variables: Mapping[str, str]) -> None:
    for place in tree_journals(journals):
        if (number := place.hold()) is None:
            continue
        try:
            if (journal := place.load()) is not None:
                await recover(place, journal, variables)
        finally:
            place.release(number)
