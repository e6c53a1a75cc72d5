"""What a model says about a command besides the command: that it must leave the sandbox, and why."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.tools.tool import or_null

ESCALATED = "require_escalated"
_ADDITIONAL = "with_additional_permissions"
_HERE = ("", "local")
"""What the one environment that there is may be called."""

_PERMISSIONS = {
    "type": "string",
    "enum": ["use_default", ESCALATED],
    "description": f"`{ESCALATED}` asks the user to let it run outside the sandbox.",
}
ESCALATION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "sandbox_permissions": _PERMISSIONS,
    "justification": {
        "type": "string",
        "description": f"With `{ESCALATED}`: one sentence for the user that says why.",
    },
}
"""The words to ask for more, as a model is told about them."""

TOLERATED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "sandbox_permissions": or_null(_PERMISSIONS | {"enum": [*_PERMISSIONS["enum"], _ADDITIONAL]}),
    "justification": or_null(ESCALATION_ARGUMENTS["justification"]),
    "with_escalated_permissions": {"type": ["boolean", "null"]},
    "prefix_rule": {"type": ["array", "null"], "items": {"type": "string"}},
    "environment_id": {"type": ["string", "null"]},
    "additional_permissions": {"type": ["object", "null"]},
}
"""Words that models know from elsewhere, and those of `ESCALATION_ARGUMENTS` where they were not told about them."""


class EscalationRequest(msgspec.Struct, frozen=True):
    """What a model asks for. It is a request only: it gives no right."""

    escalated: bool = False
    """Whether it asks to run outside the sandbox."""
    justification: str | None = None
    rule: tuple[str, ...] = ()
    """The beginning of the commands that it would like to be allowed from now on. Shown, and without effect."""


def read_escalation(arguments: dict[str, Any]) -> EscalationRequest:
    """InvalidParams where it asks for what no approver could allow here."""
    permissions = arguments.get("sandbox_permissions")
    if permissions == _ADDITIONAL or arguments.get("additional_permissions"):
        # Not turned into an escalation: that would be more than was asked for.
        raise InvalidParamsError(
            "single permissions cannot be added to the sandbox; where a command must leave it, say "
            f"sandbox_permissions = {ESCALATED!r} with a justification"
        )
    if (place := arguments.get("environment_id") or "") not in _HERE:
        raise InvalidParamsError(f"there is no environment {place[:80]!r}; commands run in the one local environment")
    return EscalationRequest(
        # The second is how the first was spelled once.
        escalated=permissions == ESCALATED or arguments.get("with_escalated_permissions") is True,
        justification=arguments.get("justification"),
        rule=tuple(arguments.get("prefix_rule") or ()),
    )
