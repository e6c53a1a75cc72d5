"""`shell`: the model runs a program and waits for its end. With or without the words to ask for more than that."""

from __future__ import annotations

from tertulia.protocol.tool_names import LOCAL_SHELL
from tertulia.tools.shell.escalation import ESCALATED, ESCALATION_ARGUMENTS, TOLERATED_ARGUMENTS
from tertulia.tools.shell.shell_command import ShellCommandTool
from tertulia.tools.tool import define_tool

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

PLAIN = define_tool("shell", _SAYS, _ARGUMENTS, ["command"], TOLERATED_ARGUMENTS)
"""What a model is told where it is not expected to ask for more. A model that asks all the same is understood."""
WITH_REQUEST = define_tool(
    "shell", _SAYS + _ASKS, {**_ARGUMENTS, **ESCALATION_ARGUMENTS}, ["command"], TOLERATED_ARGUMENTS
)


class Shell(ShellCommandTool):
    """The usual form, with the words to ask for more."""

    __slots__ = ()
    spec = WITH_REQUEST
    directory_argument = "workdir"


_SPEC = define_tool(
    LOCAL_SHELL,
    "Runs a command on the user's machine, in a sandbox, and returns its output and exit code.",
    {
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "working_directory": {"type": "string", "description": "Where it starts; the working directory if left out."},
        "timeout_ms": {"type": "integer", "minimum": 1, "description": "When to give up, in milliseconds."},
    },
    ["command"],
    {
        **TOLERATED_ARGUMENTS,
        "type": {"type": "string", "enum": ["exec"]},
        "env": {"type": ["object", "null"]},
        "user": {"type": ["string", "null"]},
    },
)


class LocalShell(ShellCommandTool):
    """What a model says about environment and user has no effect: the user decides about both."""

    __slots__ = ()
    spec = _SPEC
    directory_argument = "working_directory"
