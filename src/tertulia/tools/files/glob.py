"""`glob`: the model finds files by a pattern of their paths."""

from __future__ import annotations

from typing import Any

from tertulia.tools.command_environment import PlacedTool
from tertulia.tools.files.grep import paths_result, read_glob
from tertulia.tools.files.search import run_search, search_place
from tertulia.tools.files.specs import DEFAULT_LIMIT, GLOB
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, Outcome


class Glob(PlacedTool):
    """One search a call, confined like a command."""

    spec = GLOB

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a place that the call may not read, and a pattern that cannot be read."""
        read_glob(arguments["pattern"])
        self._place.locate(arguments.get("path") or ".", call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Search, and say how many there are."""
        at = search_place(self._place, arguments.get("path"), call)
        pattern, limit = arguments["pattern"], int(arguments.get("limit") or DEFAULT_LIMIT)
        request = {"verb": "files", "glob": pattern}
        found = await run_search(self._place, at, ("--files",), request, call)
        return await run_in_thread(paths_result, found, at, read_glob(pattern), limit, "no file fits")
