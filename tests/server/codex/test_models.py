"""The models that a client is offered."""

from __future__ import annotations

from tertulia.server.codex.models import model_entries


def test_models_that_reason_have_levels_of_effort() -> None:
    """Issue 25 (1): efforts in `model/list`."""
    own, other = model_entries("mock/mock", ["openai/gpt-5.2", "mock/mock"], None)
    assert (own["isDefault"], other["isDefault"]) == (True, False)
    assert [level["reasoningEffort"] for level in other["supportedReasoningEfforts"]] == ["low", "medium", "high"]
    assert (own["supportedReasoningEfforts"], own["defaultReasoningEffort"]) == ([], "medium")
    assert model_entries(None, ["openai/gpt-5.2"], "high")[0]["defaultReasoningEffort"] == "high"
