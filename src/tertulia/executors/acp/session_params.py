"""What an ACP agent is started with and told when a session begins: pure, and the place where one that cannot be held
to its rights is refused.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping
from typing import Any

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.acp.definition import AcpDefinition, AcpSandboxMode, fill_template, merge_tables
from tertulia.executors.command.command_line import system_text
from tertulia.executors.executor import Assignment
from tertulia.policy.sandbox_mode import sandbox_to_wire

SERVER = "tertulia"
"""What our MCP server is called."""
_MAX_VARIABLE = 100_000
"""The kernel's limit for one variable is a little higher."""
_GAP = "\n\n"
_HELD = AcpSandboxMode()


def sandbox_mode_of(name: str, definition: AcpDefinition, assignment: Assignment) -> AcpSandboxMode:
    """What keeps it within its rights; UnsupportedByBackend where nothing does."""
    mode = assignment.rights.sandbox
    hold = definition.sandbox.get(mode)
    if hold is None and mode != "danger_full_access":
        raise UnsupportedByBackendError(
            f"{name} does not say how it is held to the sandbox mode {sandbox_to_wire(mode)}; say so in the table "
            "`sandbox` of its agent, or run it under danger-full-access"
        )
    cwd = os.path.realpath(assignment.cwd)
    if mode == "workspace_write" and not any(_is_below(cwd, root) for root in assignment.roots):
        raise UnsupportedByBackendError(
            f"{name} writes where it works, and {assignment.cwd} is outside of what may be written; "
            "open the conversation in a writable directory, or read-only"
        )
    return hold or _HELD


def agent_variables(definition: AcpDefinition, assignment: Assignment) -> tuple[dict[str, str], str | None]:
    """(what its environment says besides the usual, the system part that stands there)."""
    if definition.config is None:
        return {}, None
    variable, template = definition.config
    said = system_text(assignment)
    if len(json.dumps(said).encode("utf-8", "replace")) > _MAX_VARIABLE:
        said = ""
    return {variable: json.dumps(fill_template(template, said))}, said


def session_params(definition: AcpDefinition, hold: AcpSandboxMode, assignment: Assignment) -> dict[str, Any]:
    """What session/new is given, and session/load."""
    params: dict[str, Any] = {"cwd": assignment.cwd, "mcpServers": _servers(assignment)}
    meta = merge_tables(fill_template(definition.meta, system_text(assignment)), hold.meta)
    return params | ({"_meta": meta} if meta else {})


def system_text_in_session(definition: AcpDefinition, assignment: Assignment, in_variable: str | None) -> str:
    """The system part that such a session has been told, beside any prompt or before an earlier one."""
    if assignment.is_told_already or (definition.config is None and definition.hears_system):
        return system_text(assignment)
    # Settings count for sessions that begin, and not for those that are taken up.
    return in_variable or "" if assignment.resume is None else ""


def build_prompt(assignment: Assignment, told: str) -> str:
    """The prompt, after the system part where the session has not been told that already."""
    said = system_text(assignment)
    return assignment.prompt if said in ("", told) else f"{said}{_GAP}{assignment.prompt}"


def _servers(assignment: Assignment) -> list[Mapping[str, Any]]:
    """Exactly one, ours, or none."""
    if not assignment.server:
        return []
    program, *arguments = assignment.server
    variables = [{"name": name, "value": value} for name, value in assignment.variables.items()]
    return [{"name": SERVER, "command": program, "args": arguments, "env": variables}]


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
