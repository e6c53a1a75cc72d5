"""`local_shell`: the same as `shell`, in the form that one provider's models were trained on."""

from __future__ import annotations

from tertulia.protocol.tool_names import LOCAL_SHELL
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.shell_command import OneCommand

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


class LocalShell(OneCommand):
    """What a model says about environment and user has no effect."""

    __slots__ = ()
    spec = _SPEC
    directory_argument = "working_directory"
