"""Answers of providers: read, filtered, and without repetitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.context.provider import Fragment, FragmentCut
from tertulia.context.provider_answers import (
    BLOCK_PRIORITY,
    MAX_OFFERS,
    PRIORITY,
    ProviderAnswers,
    count_tokens,
    fit_to_budget,
)
from tertulia.errors import InvalidParamsError
from tests.tables import Large


def test_one_bad_entry_does_not_cost_the_others(meta: Any, a_tool: Any) -> None:
    """S001-27."""
    collected = ProviderAnswers(meta())
    assert len(collected.take_tools([a_tool("a"), {"name": "b"}, 5, a_tool("c")])) == 2
    assert len(collected.take_servers([{"name": "fs", "command": "run"}, None])) == 1
    assert list(collected.tools) == ["a", "c"]
    assert list(collected.servers) == ["fs"]


def test_the_scope_is_looked_at_before_the_name(meta: Any, a_tool: Any) -> None:
    """S001-13, X-42: what the archetype may not use does not stand in the way of a later tool of that name."""
    collected = ProviderAnswers(meta("service"))
    collected.take_tools([a_tool("x", "employee", description="first")])
    collected.take_tools((a_tool("x", "service", description="second"), a_tool("x", "all", description="third")))
    assert [tool.description for tool in collected.tools.values()] == ["second"]


@pytest.mark.parametrize("answer", ["text", {"a": 1}, 5, {1, 2}, [None] * (MAX_OFFERS + 1)], ids=lambda a: str(a)[:20])
def test_an_answer_that_is_no_list_is_refused(answer: Any, meta: Any) -> None:
    """S001-27."""
    collected = ProviderAnswers(meta())
    for take in (collected.take_tools, collected.take_servers):
        with pytest.raises(InvalidParamsError):
            take(answer)
    assert not collected.tools
    assert not collected.servers
    assert collected.take_tools(None) == collected.take_servers(None) == []


@pytest.mark.parametrize(
    "answer", [5, ["a"], b"a", "\ud800", Large(lambda: "x" * (16 * 1024 * 1024 + 1))], ids=lambda a: str(a)[:9]
)
def test_a_text_that_is_none_is_refused(answer: Any, meta: Any) -> None:
    collected = ProviderAnswers(meta())
    with pytest.raises(InvalidParamsError):
        collected.take_text(answer, "p", PRIORITY)
    assert not collected.fragments


def test_texts_are_kept_with_their_origin_and_nothing_stays_longer_than_the_tools(meta: Any) -> None:
    """S001-15: no de-duplication, what is empty is skipped."""
    collected = ProviderAnswers(meta())
    for text, priority in (("same", 10), ("same", 10**9), ("", 1), (" \n", 1), (None, 1), ("x", "high")):
        collected.take_text(text, "p", priority)
    assert [(f.text, f.priority, f.provider) for f in collected.fragments] == [
        ("same", 10, "p"),
        ("same", BLOCK_PRIORITY - 1, "p"),
        ("x", PRIORITY, "p"),
    ]


# ---- too much text: the lowest priority gives way first, and it is said


def fragment(name: str, text: str, priority: int = 50, sensitive: bool = False) -> Fragment:
    return Fragment(name, text, count_tokens(text), priority, sensitive)


def test_what_fits_is_left_as_it_is() -> None:
    fragments = [fragment("a", "x" * 40), fragment("b", "y" * 40)]
    assert fit_to_budget(fragments, 20) == (fragments, [])


def test_the_lowest_priority_gives_way_first_and_the_order_stays() -> None:
    fragments = [fragment("a", "x" * 400, 90), fragment("b", "x" * 400, 10), fragment("c", "x" * 400, 50)]
    fitting, cuts = fit_to_budget(fragments, 210)
    assert [fragment.provider for fragment in fitting] == ["a", "c"]
    assert cuts == [FragmentCut("b", 100, 0)]


def test_of_equals_the_later_gives_way() -> None:
    fitting, _ = fit_to_budget([fragment("a", "x" * 400), fragment("b", "x" * 400)], 100)
    assert [fragment.provider for fragment in fitting] == ["a"]


def test_a_part_loses_its_end_and_says_so() -> None:
    fitting, cuts = fit_to_budget([fragment("a", "x" * 4000), fragment("b", "é" * 4000, 10)], 2000)
    assert [fragment.provider for fragment in fitting] == ["a", "b"]
    assert fitting[1].text.startswith("éééé")
    assert fitting[1].text.endswith("[… the rest of this part was left out: it is too long]")
    assert cuts == [FragmentCut("b", 2000, fitting[1].tokens)]


def test_what_holds_the_token_is_kept_or_dropped_whole() -> None:
    """X-44: half a block would be half a token."""
    fragments = [fragment("a", "x" * 4000, 50), fragment("tools", "y" * 4000, 1000, sensitive=True)]
    fitting, cuts = fit_to_budget(fragments, 1000)
    assert [(fragment.provider, fragment.text) for fragment in fitting] == [("tools", "y" * 4000)]
    fitting, cuts = fit_to_budget(fragments, 999)
    assert fitting == []
    assert [(cut.provider, cut.after) for cut in cuts] == [("a", 0), ("tools", 0)]


@given(
    st.lists(st.tuples(st.text(max_size=900), st.integers(0, 3), st.booleans()), max_size=6),
    st.integers(0, 600),
)
def test_the_budget_holds_and_nothing_goes_without_being_named(value: list[tuple[str, int, bool]], limit: int) -> None:
    fragments = [fragment(str(number), *part) for number, part in enumerate(value)]
    fitting, cuts = fit_to_budget(fragments, limit)
    assert sum(fragment.tokens for fragment in fitting) <= limit
    assert all(fragment.tokens == count_tokens(fragment.text) for fragment in fitting)
    touched = {fragment.provider for fragment in fragments} - {
        fragment.provider for fragment in fitting if fragment in fragments
    }
    assert {cut.provider for cut in cuts} == touched
    least = min((fragment.priority for fragment in fragments if fragment.provider not in touched), default=99)
    assert all(fragments[int(cut.provider)].priority <= least for cut in cuts)
