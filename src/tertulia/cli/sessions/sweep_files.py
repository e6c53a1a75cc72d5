"""What `tertulia sessions sweep` removes of the recorded states of files."""

from __future__ import annotations

import asyncio

import msgspec

from tertulia.cli.output.tables import format_count
from tertulia.session.checkpoints.left_memory import count_left_memory, drop_left_memory
from tertulia.session.checkpoints.places import stored_folder
from tertulia.session.checkpoints.retention import preview_shadows, sweep_shadows
from tertulia.session.resume.retention_sweep import retention_of
from tertulia.session.settings.settings import LoadedSettings


class SweptFiles(msgspec.Struct, frozen=True):
    """What it came to, for people."""

    counts: tuple[str, ...]
    troubles: tuple[str, ...]


def sweep_files(loaded: LoadedSettings, now: float, *, dry_run: bool) -> SweptFiles:
    """Remove the checkpoints that are due, also what killed sessions left in memory, or say what that would remove."""
    folder, limits = stored_folder(loaded.environment.home), retention_of(loaded.settings).checkpoints
    variables, troubles = loaded.environment.variables, ()
    if dry_run:
        swept, left = preview_shadows(folder, limits, now), count_left_memory()
    else:
        swept = asyncio.run(sweep_shadows(folder, limits, now, variables))
        left, troubles = asyncio.run(drop_left_memory(variables))
    counts = ((swept.checkpoints, "checkpoint"), (swept.workspaces, "recorded workspace"), (left, "memory folder"))
    listed = tuple(format_count(count, noun) for count, noun in counts if count)
    return SweptFiles(listed, (*swept.troubles, *troubles))
