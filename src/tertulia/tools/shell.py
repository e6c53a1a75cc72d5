"""`shell`: the model runs a program and waits for its end. With or without the words to ask for more than that."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.clearance import ESCALATED
from tertulia.tools.shell_command import OneCommand

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


class Shell(OneCommand):
    """The usual form, with the words to ask for more."""

    __slots__ = ()
    spec = WITH_REQUEST
    directory_argument = "workdir"
