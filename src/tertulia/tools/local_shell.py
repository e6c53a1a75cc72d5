"""`local_shell`: the same as `shell`, in the form that one provider's models were trained on."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_names import LOCAL_SHELL
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.clearance import Order, check_argv
from tertulia.tools.shell_command import apply_in, patch_for, run_order
from tertulia.tools.tool import CallContext, Outcome, Tool
from tertulia.tools.workplace import Workplace

_SPEC = ToolSpec.define(
    LOCAL_SHELL,
    "Runs a command on the user's machine, in a sandbox, and returns its output and exit code.",
    {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["exec"]},
            "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "working_directory": {"type": ["string", "null"]},
            "timeout_ms": {"type": ["integer", "null"], "minimum": 1},
            "env": {"type": ["object", "null"], "description": "Not used: the user decides about the environment."},
            "user": {"type": ["string", "null"], "description": "Not used: commands run as the user."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)


class LocalShell:
    """One command a call. What a model says about environment and user has no effect."""

    __slots__ = ("_patch", "_place")
    spec = _SPEC
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
        directory = place.directory(arguments.get("working_directory"), call)
        if (patch := patch_for(argv, call)) is not None:
            return await apply_in(directory, patch, self._patch, call)
        timeout_ms = arguments.get("timeout_ms")
        timeout_s = place.timeout_s if timeout_ms is None else min(timeout_ms / 1000, place.timeout_s)
        return await run_order(place, Order(argv=argv, cwd=directory), timeout_s, call)
