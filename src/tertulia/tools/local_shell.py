"""`local_shell`: the same as `shell`, in the form that one provider's models were trained on."""

from __future__ import annotations

from tertulia.protocol.tool_names import LOCAL_SHELL
from tertulia.tools.arguments import define
from tertulia.tools.shell_command import OneCommand
from tertulia.tools.shell_request import BROUGHT_ALONG

_SPEC = define(
    LOCAL_SHELL,
    "Runs a command on the user's machine, in a sandbox, and returns its output and exit code.",
    {
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "working_directory": {"type": "string", "description": "Where it starts; the working directory if left out."},
        "timeout_ms": {"type": "integer", "minimum": 1, "description": "When to give up, in milliseconds."},
    },
    ["command"],
    {
        **BROUGHT_ALONG,
        "type": {"type": "string", "enum": ["exec"]},
        "env": {"type": ["object", "null"]},
        "user": {"type": ["string", "null"]},
    },
)


class LocalShell(OneCommand):
    """What a model says about environment and user has no effect: the user decides about both."""

    __slots__ = ()
    spec = _SPEC
    directory_argument = "working_directory"
