"""`shell`: the model runs a program and waits for its end. With or without the words to ask for more than that."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.clearance import ESCALATED, Order, check_argv
from tertulia.tools.shell_command import apply_in, patch_for, run_order
from tertulia.tools.tool import CallContext, Outcome, Tool
from tertulia.tools.workplace import Workplace

_ARGUMENTS = {
    "command": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": 'The program and its arguments, such as ["bash", "-c", "ls | wc -l"].',
    },
    "workdir": {"type": "string", "description": "Where it starts; the working directory if left out."},
    "timeout_ms": {"type": "integer", "minimum": 1, "description": "When to give up, in milliseconds."},
}
_REQUEST = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", ESCALATED],
        "description": f"`{ESCALATED}` asks the user to let it run outside the sandbox.",
    },
    "justification": {
        "type": "string",
        "description": f"With `{ESCALATED}`: one sentence for the user that says why.",
    },
}
_SAYS = "Runs a command without a shell in between and returns its output, in the order it was written, and exit code."
_ASKS = (
    " Commands run in a sandbox. One that must leave it, to reach the network or to write elsewhere, needs "
    f"`sandbox_permissions` = `{ESCALATED}` and a `justification`; the user decides."
)


def _spec(description: str, arguments: dict[str, Any]) -> ToolSpec:
    schema = {"type": "object", "properties": arguments, "required": ["command"], "additionalProperties": False}
    return ToolSpec.define("shell", description, schema)


PLAIN = _spec(_SAYS, _ARGUMENTS)
"""What a model is told where it is not expected to ask for more. Whoever asks all the same is understood."""
WITH_REQUEST = _spec(_SAYS + _ASKS, _ARGUMENTS | _REQUEST)


class Shell:
    """One command a call. A patch that is handed to it as if to a program is applied by the patch tool."""

    __slots__ = ("_patch", "_place")
    spec = WITH_REQUEST
    parallel_safe = False
    read_only = False

    def __init__(self, place: Workplace, patch: Tool) -> None:
        self._place = place
        self._patch = patch

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what could not be started, and a patch that is none."""
        argv = tuple(arguments["command"])
        check_argv(argv)
        if (patch := patch_for(argv, call)) is not None:
            self._patch.check(patch.text, call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Run it and wait."""
        argv, place = tuple(arguments["command"]), self._place
        directory = place.directory(arguments.get("workdir"), call)
        if (patch := patch_for(argv, call)) is not None:
            return await apply_in(directory, patch, self._patch, call)
        order = Order(
            argv=argv,
            cwd=directory,
            escalated=arguments.get("sandbox_permissions") == ESCALATED,
            justification=arguments.get("justification"),
        )
        timeout_ms = arguments.get("timeout_ms")
        timeout_s = place.timeout_s if timeout_ms is None else min(timeout_ms / 1000, place.timeout_s)
        return await run_order(place, order, timeout_s, call)
