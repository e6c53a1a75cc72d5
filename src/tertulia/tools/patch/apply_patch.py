"""`apply_patch`: the model changes files by a patch. All of it is applied, inside the sandbox, or nothing is."""

from __future__ import annotations

from typing import Any

from tertulia.tools.files.specs import APPLY_PATCH
from tertulia.tools.patch.engine import Patch, PatchTool, check_unprotected
from tertulia.tools.patch.plan import touched_paths
from tertulia.tools.patch.text import parse_patch
from tertulia.tools.tool import CallContext, Outcome


class ApplyPatch(PatchTool):
    """Reads the files, computes their new contents, asks for approval, and writes them if they are unchanged since."""

    spec = APPLY_PATCH

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse text that is no patch, and paths outside the working directory or protected; reads no file."""
        paths = touched_paths(parse_patch(arguments))
        if call.rights.sandbox != "danger_full_access":
            check_unprotected(paths)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Apply the whole patch. On an error or a cancellation every file is left as it was."""
        return await self._engine.apply(Patch(parse_patch(arguments), call, arguments))
