"""Fallback models: after the model of a conversation has finally failed, the next one answers the rest of the task."""

from __future__ import annotations

from tertulia.conversation.model_answer import ProviderError
from tertulia.conversation.task_scope import TaskScope, terms_in_use
from tertulia.errors import TertuliaError
from tertulia.protocol.events import BackgroundEvent, WarningEvent

FALLBACK = "model_fallback"
"""The code of the warning that says which model answers instead, and why."""


def use_next_model(scope: TaskScope, failure: ProviderError) -> bool:
    """Let the next model answer, where another may help, and publish why. False where none is left.

    Only the model changes: the rights, the storage policy and the budget of the task are what they were.
    """
    if not failure.another_may_help:
        return False
    failed = terms_in_use(scope).wire.name
    for name in scope.conversation.terms.fallback_models[scope.fallbacks :]:
        scope.fallbacks += 1
        try:
            wire = scope.around.find_wire(name)
        except TertuliaError as error:
            scope.publish(WarningEvent(f"{name} cannot answer instead: {error.message}", FALLBACK))
            continue
        scope.fallback, scope.partial = wire, None
        message = f"{failed} does not answer: {failure.message}; {name} answers instead, until the task is over"
        scope.publish(WarningEvent(message, FALLBACK))
        # What it may have said so far is void.
        scope.publish(BackgroundEvent(f"asking {name}", discard_deltas=True))
        return True
    return False
