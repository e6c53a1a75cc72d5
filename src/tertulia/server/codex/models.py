"""The models that a Codex client is offered, each with its levels of effort."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tertulia.models.catalog import model_facts

_EFFORTS = {
    "low": "Answers soon, with little reasoning",
    "medium": "Weighs speed against care",
    "high": "Reasons longest, for hard tasks",
}
USUAL_EFFORT = "medium"


def model_entries(own: str | None, known: Iterable[str], effort: str | None) -> list[dict[str, Any]]:
    """The model of the settings first, which is the default. `effort`: the one that the settings name."""
    named: list[str] = [] if own is None else [own]
    return [_entry(name, effort, first=not at) for at, name in enumerate(dict.fromkeys([*named, *known]))]


def _entry(name: str, effort: str | None, *, first: bool) -> dict[str, Any]:
    levels = _EFFORTS if model_facts(name).reasoning else {}
    return {
        "id": name,
        "model": name,
        "displayName": name,
        "description": "",
        "hidden": False,
        "isDefault": first,
        "supportedReasoningEfforts": [
            {"reasoningEffort": level, "description": description} for level, description in levels.items()
        ],
        "defaultReasoningEffort": effort or USUAL_EFFORT,
        "inputModalities": ["text", "image"] if model_facts(name).images else ["text"],
    }
