"""What a server does at its start: sessions whose tasks a crash cut are resumed, so that those go on.

One after another and no more than `MAX_SESSIONS`, in the background: clients are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import TertuliaError
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.session.host import Host

MAX_SESSIONS = 100
Tell = Callable[[str], object]


async def continue_cut_tasks(host: Host, home: Path, tell: Tell) -> None:
    """Resume the newest sessions with such tasks; `tell` gets a line for each, and one that sums up."""
    entries = await asyncio.to_thread(list_sessions, home)
    cut = [entry.id for entry in entries if entry.cut_chains > 0 and entry.trouble is None]
    if not cut:
        return
    tasks = sessions = 0
    for number, session_id in enumerate(cut[:MAX_SESSIONS], 1):
        began = await _continue(host, session_id, lambda line, at=number: tell(f"{at}/{len(cut)} {line}"))
        tasks, sessions = tasks + began, sessions + bool(began)
    left = len(cut) - MAX_SESSIONS
    more = f"; {left} more {'is' if left == 1 else 'are'} left: `tertulia resume ID --continue`" if left > 0 else ""
    tell(f"tasks that a crash cut go on: {tasks} in {sessions} of {min(len(cut), MAX_SESSIONS)} sessions{more}")


async def _continue(host: Host, session_id: str, tell: Tell) -> int:
    """Resume one session with its own directory and model; how many of its tasks go on. One with none is closed."""
    settings = replace(host.settings, cwd=None)
    if isinstance(settings.model, str):
        settings = replace(settings, model=None)
    try:
        session = await host.resume(session_id, settings, continue_tasks=True)
        began = len(session.activity.continued)
        tell(f"session {session_id}: {began} go on")
        if not began and session.activity.is_idle:
            await host.close_session(session)
    except TertuliaError as error:
        tell(f"session {session_id} cannot go on: {error.message}")
        return 0
    return began
