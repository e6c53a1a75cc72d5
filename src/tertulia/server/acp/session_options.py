"""What a person can choose for an ACP session: how far commands may go, and which model answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.policy.sandbox_mode import SANDBOX_MODES, SandboxMode, sandbox_to_wire
from tertulia.session.session import Session

_MODES: dict[SandboxMode, tuple[str, str]] = {
    "read_only": ("Read only", "Reads files; changes nothing and reaches no network without being allowed to."),
    "workspace_write": ("Workspace", "Changes files of the workspace; anything else has to be allowed."),
    "danger_full_access": ("Full access", "No sandbox: commands may do whatever you may."),
}


def current_mode(session: Session) -> str:
    """The mode that the root works in."""
    return sandbox_to_wire(session.parts.conversations.root.terms.rights.sandbox)


def mode_state(session: Session) -> dict[str, Any]:
    """All up to what the user's settings allow, and the one that holds."""
    most = SANDBOX_MODES.index(session.parts.conversations.root.ceiling.sandbox)
    listed = [
        {"id": sandbox_to_wire(mode), "name": _MODES[mode][0], "description": _MODES[mode][1]}
        for mode in SANDBOX_MODES[: most + 1]
    ]
    return {"currentModeId": current_mode(session), "availableModes": listed}


def config_options(session: Session, models: Iterable[str]) -> list[dict[str, Any]]:
    """The same and the model, in the form that newer editors read."""
    state, model = mode_state(session), session.info.model
    named = [{"value": name, "name": name} for name in dict.fromkeys((model, *models))]
    return [
        {
            "id": "mode",
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": state["currentModeId"],
            "options": [
                {"value": mode["id"], "name": mode["name"], "description": mode["description"]}
                for mode in state["availableModes"]
            ],
        },
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": model,
            "options": named,
        },
    ]


async def choose_mode(session: Session, mode: str) -> None:
    """It holds from the next request to the model on. InvalidParams for one that is not allowed."""
    allowed = [each["id"] for each in mode_state(session)["availableModes"]]
    if mode not in allowed:
        raise InvalidParamsError(
            f"the mode must be one of {', '.join(allowed)}, not {mode[:64]!r}; your settings say so"
        )
    await session.root.set_context(sandbox=mode)


async def choose_model(session: Session, model: str) -> None:
    """It answers from the next request on. InvalidParams for one that is not known."""
    await session.root.set_context(model=model)
