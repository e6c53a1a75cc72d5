"""Answers of providers: read, filtered, and without repetitions."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.context.provider_answers import BLOCK_PRIORITY, MAX_OFFERS, PRIORITY, ProviderAnswers
from tertulia.errors import InvalidParamsError


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


@pytest.mark.parametrize("answer", [5, ["a"], b"a", "\ud800", "x" * (16 * 1024 * 1024 + 1)], ids=lambda a: str(a)[:9])
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
