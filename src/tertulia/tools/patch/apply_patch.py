"""`apply_patch`: the model changes files by a patch. All of it is applied, inside the sandbox, or nothing is."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.patch.engine import Patch, PatchEngine, check_unprotected
from tertulia.tools.patch.plan import touched_paths
from tertulia.tools.patch.text import parse_patch
from tertulia.tools.tool import CallContext, ChangingTool, Outcome

_GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

_SPEC = ToolSpec.define(
    "apply_patch",
    "Use the `apply_patch` tool to edit files. A patch stands between `*** Begin Patch` and `*** End Patch` and holds, "
    "for each file, `*** Add File: PATH` with lines that begin with `+`, or `*** Delete File: PATH`, or `*** Update "
    "File: PATH` (then perhaps `*** Move to: PATH`) with places that begin with `@@` or `@@ a line before`, whose "
    "lines begin with a blank (stays), `-` (goes) or `+` (comes). Give three lines around each change. Paths are "
    "relative. The whole patch is applied, or nothing of it. This is free text: do not wrap it in JSON.",
    kind="custom",
    grammar=_GRAMMAR,
)


class ApplyPatch(ChangingTool):
    """Reads the files, computes their new contents, asks for approval, and writes them if they are unchanged since."""

    __slots__ = ("_engine",)
    spec = _SPEC

    def __init__(self, engine: PatchEngine) -> None:
        self._engine = engine

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse text that is no patch, and paths outside the working directory or protected; reads no file."""
        paths = touched_paths(parse_patch(arguments))
        if call.rights.sandbox != "danger_full_access":
            check_unprotected(paths)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Apply the whole patch. On an error or a cancellation every file is left as it was."""
        return await self._engine.apply(Patch(parse_patch(arguments), call, arguments))
