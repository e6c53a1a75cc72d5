"""The budget of a session: what is read as one, when it is used up, and what cannot be counted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tertulia.errors import BudgetExceededError, InvalidParamsError
from tertulia.policy.session_budget import SessionBudget, SessionSpending, budget_from_wire
from tests.tables import each_row


@each_row(
    ("table", "budget"),
    [
        ({}, SessionBudget()),
        ({"tokens": 1000}, SessionBudget(tokens=1000)),
        ({"tokens": 1000.0, "usd": 5}, SessionBudget(tokens=1000, usd=5.0)),
        ({"tokens": "none", "usd": None}, SessionBudget()),
        (SessionBudget(usd=0.5), SessionBudget(usd=0.5)),
    ],
)
def test_a_table_names_tokens_money_or_both(table: Any, budget: SessionBudget) -> None:
    assert budget_from_wire(table) == budget


@each_row(
    ("table", "problem"),
    [
        ({"tokens": 0}, "budget.tokens must be a whole number from 1 to"),
        ({"tokens": -1}, "budget.tokens must be a whole number from 1 to"),
        ({"tokens": 1.5}, "budget.tokens must be a whole number from 1 to"),
        ({"tokens": 10**30}, "budget.tokens must be a whole number from 1 to"),
        ({"tokens": True}, "budget.tokens must be a whole number from 1 to"),
        ({"usd": 0}, "budget.usd must be a number from 1e-06 to 1,000,000,000"),
        ({"usd": -3.0}, "budget.usd must be a number"),
        ({"usd": math.nan}, "budget.usd must be a number"),
        ({"usd": math.inf}, "budget.usd must be a number"),
        ({"usd": "5 $"}, "budget.usd must be a number"),
        ({"eur": 5}, "budget has no 'eur'"),
        (SessionBudget(tokens=-5), "budget.tokens must be a whole number"),
        (5, "budget must be a table"),
    ],
)
def test_what_is_no_budget_is_refused(table: Any, problem: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        budget_from_wire(table)
    assert problem in refused.value.message


@each_row(
    ("budget", "name"),
    [(SessionBudget(tokens=100), "tokens"), (SessionBudget(tokens=1000, usd=0.5), "usd")],
)
def test_what_is_used_up_leaves_no_room(budget: SessionBudget, name: str) -> None:
    spending = SessionSpending(budget)
    spending.add(99, 0.49)
    spending.require_room()
    spending.add(1, None)
    spending.add(0, 0.01)
    with pytest.raises(BudgetExceededError) as exceeded:
        spending.require_room()
    assert (exceeded.value.code, exceeded.value.detail) == ("budget_exceeded", {"budget": name})
    assert f"(budget.{name})" in exceeded.value.message


def test_without_a_budget_there_is_always_room() -> None:
    spending = SessionSpending()
    spending.add(10**12, 10.0**6)
    spending.require_room()
    spending.budget.require_price("acme/large", is_known=False)
    assert spending.budget.backend_notice("codex") is None


def test_money_needs_prices_and_tokens_of_other_programs_are_those_that_they_report() -> None:
    money, tokens = SessionBudget(usd=1.0), SessionBudget(tokens=10)
    money.require_price("acme/large", is_known=True)
    with pytest.raises(InvalidParamsError, match=r'\[model_prices\."acme/large"\], or limit budget.tokens'):
        money.require_price("acme/large", is_known=False)
    with pytest.raises(InvalidParamsError, match="backend codex does not say what its requests cost"):
        money.backend_notice("codex")
    assert "only the tokens that it reports are counted" in (tokens.backend_notice("codex") or "")
