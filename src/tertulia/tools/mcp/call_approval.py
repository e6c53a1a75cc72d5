"""Whether a call to an MCP server runs, is asked about, or is refused.

A server runs outside the conversation's sandbox. Its hints about its tools count only where the user configured it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from tertulia.errors import NoApproverError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.pool.session_server import CurrentTool
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.approvals.approval_request import (
    ApprovalParts,
    GrantSubject,
    RequestedAction,
    as_one_line,
    with_label,
)
from tertulia.policy.narrowing import Rights
from tertulia.protocol.tool_events import Decider
from tertulia.tools.tool import CallContext

_BELIEVED = ("user", "code")
"""Servers of these origins are believed in their hints."""

_canonical = msgspec.json.Encoder(order="deterministic", enc_hook=dict)


def only_reads(current: CurrentTool) -> bool:
    """Whether the tool changes nothing, by a hint that counts."""
    return current.tool.hints.read_only and current.definition.origin in _BELIEVED


def runs_unasked(current: CurrentTool, rights: Rights) -> bool:
    """By the server's `approval`; but under read_only a server that may do more always needs an approval."""
    definition = current.definition
    if _may_do_more(definition, rights):
        return False
    match definition.approval:
        case "approve":
            return True
        case "prompt":
            return False
        case "auto":
            return only_reads(current)


async def approve_call(
    approvals: ApprovalQueue, current: CurrentTool, arguments: dict[str, Any], call: CallContext
) -> Decider:
    """What allows the call. ApprovalDeniedError where it may not be made, NoApproverError without an approver."""
    definition = current.definition
    if runs_unasked(current, call.rights):
        return Decider("policy", f'mcp_servers.{definition.name}.approval = "{definition.approval}"')
    try:
        granted = await approvals.ask(
            approval_request(current, arguments, call), call.rights.approval_policy, call.publish
        )
        return granted.decider
    except NoApproverError as error:
        raise NoApproverError(f"{error.message}; {_way_out(current.definition, call.rights)}") from None


def approval_request(current: CurrentTool, arguments: dict[str, Any], call: CallContext) -> RequestedAction:
    """The approval request. A grant holds for the same tool, defined the same way, with the same arguments."""
    definition, tool = current.definition, current.tool
    encoded = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    readable = json.dumps(arguments, sort_keys=True, ensure_ascii=False, indent=2)
    confinement = _confinement(definition)
    return RequestedAction(
        kind="mcp",
        conversation_id=call.conversation_id,
        chain=call.chain.callers,
        call_id=call.call_id,
        title=f"call {tool.name} of the MCP server {definition.name}",
        detail=f"{with_label('arguments', readable)}\n{_claims(current)}",
        subject=GrantSubject(
            (definition.name, tool.name, current.digest, encoded),
            call.cwd,
            f"MCP server {definition.name}, definition {_digest(definition)}",
            confinement,
        ),
        parts=ApprovalParts(
            cwd=call.cwd, sandbox=confinement, server=definition.name, tool=tool.name, arguments=readable
        ),
    )


def _may_do_more(definition: ServerDefinition, rights: Rights) -> bool:
    return rights.sandbox == "read_only" and definition.sandbox != "read_only"


def _way_out(definition: ServerDefinition, rights: Rights) -> str:
    table = f"[mcp_servers.{definition.name}]"
    if _may_do_more(definition, rights):
        return (
            f"in a read-only sandbox `{table} approval` does not count, unless the server is confined itself: "
            f'`{table} sandbox = "read-only"`'
        )
    return f'`{table} approval = "approve"` in the configuration lets its tools run unasked'


def _claims(current: CurrentTool) -> str:
    """What the server says the tool does, which is not verified."""
    hints = current.tool.hints
    kind = "only reads" if hints.read_only else "may destroy" if hints.destructive else "changes, and destroys nothing"
    source = current.definition.source
    named = f", named in {as_one_line(source)}" if source and current.definition.origin == "project" else ""
    return f"(the server says that it {kind}; it runs {_confinement(current.definition)}{named})"


def _confinement(definition: ServerDefinition) -> str:
    if definition.sandbox is None:
        return "outside any sandbox"
    return f"in a sandbox of its own: {definition.sandbox}, network {'on' if definition.network else 'off'}"


def _digest(definition: ServerDefinition) -> str:
    return hashlib.sha256(_canonical.encode(definition)).hexdigest()
