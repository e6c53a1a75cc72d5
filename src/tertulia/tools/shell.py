"""`shell`: the model runs a program and waits for its end. With or without the words to ask for more than that."""

from __future__ import annotations

from tertulia.tools.arguments import define
from tertulia.tools.shell_command import OneCommand
from tertulia.tools.shell_request import ASKING, BROUGHT_ALONG, ESCALATED

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
_SAYS = "Runs a command without a shell in between and returns its output, in the order it was written, and exit code."
_ASKS = (
    " Commands run in a sandbox. One that must leave it, to reach the network or to write elsewhere, needs "
    f"`sandbox_permissions` = `{ESCALATED}` and a `justification`; the user decides."
)

PLAIN = define("shell", _SAYS, _ARGUMENTS, ["command"], BROUGHT_ALONG)
"""What a model is told where it is not expected to ask for more. Whoever asks all the same is understood."""
WITH_REQUEST = define("shell", _SAYS + _ASKS, {**_ARGUMENTS, **ASKING}, ["command"], BROUGHT_ALONG)


class Shell(OneCommand):
    """The usual form, with the words to ask for more."""

    __slots__ = ()
    spec = WITH_REQUEST
    directory_argument = "workdir"
