"""Deletes a stored session for good: its record, and what was recorded of files for it."""

from __future__ import annotations

import asyncio

from tertulia.errors import NotFoundError
from tertulia.events.clock import Clock
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.rollout.sqlite.session_index import remove_session
from tertulia.session.checkpoints.places import stored_folder
from tertulia.session.checkpoints.retention import sweep_shadows
from tertulia.session.resume.retention_sweep import retention_of
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings


async def delete_session(environment: Environment, settings: Settings, clock: Clock, session_id: str) -> None:
    """Delete it. NotFound where there is none, Busy where a process has it open: then all of it stays."""
    if not is_session_id(session_id):
        raise NotFoundError(f"there is no session {session_id[:64]!r}: a session id is a UUID in small letters")
    await asyncio.to_thread(remove_session, environment.home, session_id)
    folder, limits = stored_folder(environment.home), retention_of(settings).checkpoints
    await sweep_shadows(
        folder, limits, clock.now(), environment.variables, lambda window: window.session_id == session_id
    )
