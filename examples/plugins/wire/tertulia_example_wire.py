"""A model wire from outside: `model="parrot/NAME"` repeats what it is told."""

from __future__ import annotations

from collections.abc import Mapping

from tertulia.testing import ScriptedModel, ScriptedRequest


def make_wire(model: str, variables: Mapping[str, str]) -> ScriptedModel:
    """The wire of `parrot/MODEL`. A real one speaks to an API; its key would be in `variables`."""

    def repeat(request: ScriptedRequest) -> str:
        return f"{model}: {request.last_input}"

    return ScriptedModel([repeat], name=f"parrot/{model}", repeat=True)
