"""Which tool calls may write to the workspace. In doubt a call may."""

from __future__ import annotations

from typing import Any, cast

from tertulia.policy.commands.command_analysis import analyse_command, only_reads_in
from tertulia.policy.rights import Rights
from tertulia.protocol.tool_spec import BASH, CONV_TOOLS, LOCAL_SHELL, TEXT_EDITOR
from tertulia.tools.dispatch import CheckedCall

_HARMLESS = frozenset({*CONV_TOOLS, "update_plan", "web_search"})
_COMMANDS = {"shell": "command", BASH: "command", LOCAL_SHELL: "command", "exec_command": "cmd"}
_CONFINED = frozenset({*_COMMANDS, "write_stdin", "apply_patch", "edit", "write", TEXT_EDITOR})
"""Those that the sandbox confines."""


def may_write(checked: CheckedCall, rights: Rights, cwd: str) -> bool:
    """Whether a call that may change something may change files of the workspace."""
    tool = checked.tool
    if checked.refusal is not None or tool is None or tool.read_only:
        return False
    if tool.spec.source not in ("builtin", "conv"):
        return True
    name = tool.spec.name
    if name in _HARMLESS or (name == TEXT_EDITOR and _argument(checked, "command") == "view"):
        return False
    if name in _CONFINED and rights.sandbox == "read_only" and not rights.approval_policy.may_ask:
        return False
    return name not in _COMMANDS or not _only_reads(_argument(checked, _COMMANDS[name]), cwd)


def _argument(checked: CheckedCall, name: str) -> object:
    arguments = checked.arguments
    return cast("dict[str, Any]", arguments).get(name) if isinstance(arguments, dict) else None


def _only_reads(command: object, cwd: str) -> bool:
    """By the words of a command alone: a repository can make git start programs."""
    match command:
        case str():
            words = ["/bin/sh", "-c", command]
        case list():
            words = [str(word) for word in cast("list[object]", command)]
        case _:
            return False
    return only_reads_in(analyse_command(words), cwd, ())
