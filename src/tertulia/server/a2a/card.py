"""The agent card: what another agent reads about this one before it sends a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tertulia.version import __version__

Json = dict[str, Any]
PROTOCOL_VERSION = "1.0"
_MODES = ["text/plain", "application/json"]
_PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]


def agent_card(address: str, name: str, agents: Sequence[tuple[str, str]]) -> Json:
    """The card of what is at `address`.

    `name`: of the agent or conversation; empty for the one that opens a plain conversation for each context. `agents`:
    names and descriptions of those that have a card of their own below the same address.
    """
    about = f"{name} in Tertulia" if name else "An agent with tools; each context is a conversation of its own"
    skills = [_skill(name or "tertulia", dict(agents).get(name, "") or about)]
    if not name:
        skills += [_skill(agent, f"{text or agent} (its own card: {address}/{agent})") for agent, text in agents]
    return {
        "name": name or "tertulia",
        "description": about,
        "version": __version__,
        "supportedInterfaces": [
            {
                "url": f"{address}/{name}" if name else address,
                "protocolBinding": "JSONRPC",
                "protocolVersion": PROTOCOL_VERSION,
            }
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": [*_MODES, *_PICTURES],
        "defaultOutputModes": ["text/plain"],
        "skills": skills,
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }


def _skill(name: str, description: str) -> Mapping[str, Any]:
    return {"id": name, "name": name, "description": description, "tags": ["agent"]}
