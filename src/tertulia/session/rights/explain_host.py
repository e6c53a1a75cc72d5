"""Explains what would happen to a connection to a host: which layer of the right to the network refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError
from tertulia.policy.approvals.approval_request import policy_verdict, verdict_reason
from tertulia.policy.host_rules import HostVerdict, NetworkRight, network_text
from tertulia.policy.hosts import HostName
from tertulia.sandbox.proxy.http_head import BadMessageError, read_authority
from tertulia.session.rights.answers import ExplainedAction

if TYPE_CHECKING:
    from tertulia.conversation.state import ConversationState
    from tertulia.policy.rights import Rights
    from tertulia.session.parts import SessionParts

_USUAL_PORT = 443


def explain_host(parts: SessionParts, conversation: ConversationState, now: Rights, text: str) -> ExplainedAction:
    """What a command of this conversation would meet that wants this host, `host` or `host:port`.

    Raises:
        InvalidParamsError: It is no host.
    """
    try:
        host, port = read_authority(f"[{text}]" if text.count(":") > 1 and text[:1] != "[" else text, _USUAL_PORT)
    except BadMessageError as error:
        raise InvalidParamsError(str(error)) from None
    if now.sandbox == "danger_full_access":
        return ExplainedAction("run", "commands run outside the sandbox, where no host is refused", "session")
    layers = [(_verdict(network, host, port), who, network) for who, network in _layers(parts, conversation, now)]
    refused = [layer for layer in layers if layer[0] == "denied"] or [
        layer for layer in layers if layer[0] != "allowed"
    ]
    if not refused:
        return ExplainedAction("run", f"{host.name}:{port} is allowed by network", layers[-1][1])
    verdict, set_by, network = refused[0]
    if verdict == "denied":
        return ExplainedAction("deny", f"{host.name}:{port} is refused by network: {network_text(network)}", set_by)
    policy = now.approval_policy
    reason = verdict_reason(policy, "network", known_safe=False)
    because = f"{host.name}:{port} is not in network: {network_text(network)}; {reason}"
    return ExplainedAction(policy_verdict(policy, "network", known_safe=False), because, set_by)


def _verdict(network: NetworkRight, host: HostName, port: int) -> HostVerdict:
    if isinstance(network, bool):
        return "allowed" if network else "denied"
    return network.verdict(host, port)


def _layers(parts: SessionParts, conversation: ConversationState, now: Rights) -> Iterator[tuple[str, NetworkRight]]:
    """From the outermost to the conversation itself, and what waits for it; the last has passed all of them."""
    yield "session", parts.terms_resolver.ceiling.network
    above: list[tuple[str, NetworkRight]] = []
    parent = conversation.parent_id
    while parent is not None and (state := parts.conversations.peek(parent)) is not None:
        above.append((f"ancestor:{state.id}", state.terms.rights.network))
        parent = state.parent_id
    yield from reversed(above)
    agent = conversation.terms.agent
    yield ("conversation" if agent is None else f"agent:{agent.name}"), conversation.terms.rights.network
    if now.network != conversation.terms.rights.network:
        yield "chain", now.network
