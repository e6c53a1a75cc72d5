"""The budget of a session: how many tokens and US dollars all its conversations may use, and what they have used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import BudgetExceededError, InvalidParamsError
from tertulia.protocol.conversation_fields import Number
from tertulia.protocol.name_hints import name_hint

_NUMBERS = {"tokens": Number(1, 2**53, whole=True), "usd": Number(0.000001, 1e9)}


class SessionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """`[budget]`: what all requests of a session may use together. None is no limit."""

    tokens: int | None = None
    """Tokens of input and output, those from a provider's cache among them."""
    usd: float | None = None
    """US dollars, by the prices that `token_count` is counted with."""

    def require_price(self, model: str, *, is_known: bool) -> None:
        """Raise InvalidParams for a model whose requests cannot be counted in money, where money is limited."""
        if self.usd is not None and not is_known:
            raise InvalidParamsError(
                f"budget.usd: the price of {model} is not known, so money cannot be limited; set it in "
                f'[model_prices."{model}"], or limit budget.tokens instead'
            )

    def backend_notice(self, backend: str) -> str | None:
        """What is counted of a program that asks models itself. InvalidParams where money is limited."""
        if self.usd is not None:
            raise InvalidParamsError(
                f"budget.usd: backend {backend} does not say what its requests cost, so money cannot be limited; "
                "limit budget.tokens instead, or take the budget away"
            )
        if self.tokens is None:
            return None
        return (
            f"budget.tokens: of backend {backend} only the tokens that it reports are counted, and it is stopped "
            "before a task, not within one"
        )


def budget_from_wire(value: object) -> SessionBudget:
    """Parse the table; InvalidParams names the entry and what is allowed."""
    if isinstance(value, SessionBudget):
        value = {"tokens": value.tokens, "usd": value.usd}
    if not isinstance(value, Mapping):
        raise InvalidParamsError("budget must be a table with tokens, usd or both")
    limits: dict[str, Any] = {}
    for name, limit in cast("Mapping[Any, object]", value).items():
        if name not in _NUMBERS:
            raise InvalidParamsError(f"budget has no {name!r:.80}; {name_hint(str(name), _NUMBERS)}")
        # The word, because TOML knows no null.
        limits[name] = None if limit in (None, "none") else _NUMBERS[name].parse(f"budget.{name}", limit)
    return SessionBudget(**limits)


class SessionSpending:
    """What the requests of a session have used since it first began, and whether there may be another one."""

    __slots__ = ("budget", "tokens", "usd")

    def __init__(self, budget: SessionBudget | None = None) -> None:
        self.budget = budget or SessionBudget()
        self.tokens = 0
        self.usd = 0.0
        """Of the requests whose price is known."""

    def add(self, tokens: int, usd: float | None) -> None:
        """Count a request that was answered."""
        self.tokens += tokens
        self.usd += usd or 0.0

    def require_room(self) -> None:
        """Raise BudgetExceeded where nothing is left for another request."""
        budget = self.budget
        if budget.tokens is not None and self.tokens >= budget.tokens:
            raise _exceeded("tokens", f"{self.tokens:,} of {budget.tokens:,} tokens")
        if budget.usd is not None and self.usd >= budget.usd:
            raise _exceeded("usd", f"${self.usd:,.4f} of ${budget.usd:,.4f}")


def _exceeded(name: str, used: str) -> BudgetExceededError:
    return BudgetExceededError(
        f"the budget of the session is used up: {used} (budget.{name}); no model is asked before it is raised",
        budget=name,
    )
