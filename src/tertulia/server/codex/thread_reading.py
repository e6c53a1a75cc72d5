"""What a Codex client reads of its threads, page by page, and of the skills in their directories."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.server.codex.params import ListSkills
from tertulia.server.codex.skills import skills_entry
from tertulia.server.codex.thread_pages import ListItems, ListTurns, items_page, turns_page
from tertulia.server.codex.threads import CodexThreads
from tertulia.server.jsonrpc.request_runner import MethodResult


class ThreadReading:
    """Reads threads that are open, and stored ones without starting them."""

    def __init__(self, threads: CodexThreads) -> None:
        self._threads = threads

    async def turns(self, request: ListTurns) -> MethodResult:
        """`thread/turns/list`: one page of the turns of a thread, open or stored."""
        return MethodResult(turns_page(await self._turns(request.thread_id), request))

    async def items(self, request: ListItems) -> MethodResult:
        """`thread/items/list`: one page of the items of a thread, open or stored."""
        return MethodResult(items_page(await self._turns(request.thread_id), request))

    async def skills(self, request: ListSkills) -> MethodResult:
        """`skills/list`: the skills of the directories of open threads, or of those among them that are named."""
        found = [thread.session.root.details.skills() for thread in self._threads.opened]
        folders = {folder.cwd: folder for folder in found}
        wanted = folders if not request.cwds else dict.fromkeys(request.cwds)
        data = [await asyncio.to_thread(skills_entry, folders[cwd]) for cwd in wanted if cwd in folders]
        return MethodResult({"data": data})

    async def _turns(self, thread_id: str) -> list[dict[str, Any]]:
        thread = self._threads.opened.get(thread_id)
        if thread is not None:
            return thread.turns()
        return await asyncio.to_thread(self._threads.stored.turns, thread_id)
