"""Stands where no model is set up, so that a session can begin before one is, or have executors do its work."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tertulia.errors import NoModelError
from tertulia.models.wire import AnswerFailure, AnswerPiece, ItemsDialect, ModelRequest

NO_MODEL = "none"
"""What the wire is called."""


class NoModel:
    """Implements `Wire` and answers nothing: every request fails with the ways to get a model."""

    name = NO_MODEL
    family = NO_MODEL
    context_window = 128_000
    dialect = ItemsDialect()

    def __init__(self, reason: str) -> None:
        self.reason = reason
        """Why there is none, and how to get one."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Fail at once, with the reason that there is no model."""
        yield AnswerFailure(self.reason, NoModelError.code)

    async def close(self) -> None:
        """Close nothing: it has no connections."""
