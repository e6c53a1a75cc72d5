"""Of a context that has changed an agent is told what is new, and what it needs besides what it was told first."""

from __future__ import annotations

import pytest

from tertulia.session.agents.active_agent import context_updates, withdrawal_text


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        ([], [], []),
        (["one"], ["one"], []),
        (["one"], ["two"], ["two"]),
        (["one"], ["one", "two"], ["two"]),
        (["one", "two"], ["two", "one"], []),
        (["one", "two"], ["two"], []),
        (["## x\n\n1\n\n## y\n\n2"], ["## x\n\n1\n\n## y\n\n3"], ["## y\n\n3"]),
        (["head\n## x\n1"], ["other\n## x\n1"], ["other"]),
        (["## x\n\n1"], ["## x\n\n1\n"], []),
        (["a # b\n### c"], ["a # b\n### d"], ["a # b\n### d"]),
        (["one"], ["", "one"], []),
    ],
)
def test_sections_that_were_said_word_for_word_are_not_repeated(
    before: list[str], now: list[str], news: list[str]
) -> None:
    """Issue 9, item 1: dynamic refresh."""
    assert context_updates("\n".join(before), before, now) == news


def test_the_last_update_is_enough() -> None:
    """Earlier ones may be trimmed: whatever differs from the first message is in it."""
    first, then, now = ["rain", "soup"], ["sun", "soup"], ["sun", "fish"]
    assert context_updates("rain\nsoup", first, then) == ["sun"]
    assert context_updates("rain\nsoup", then, now) == ["sun", "fish"]
    assert context_updates("rain\nsoup", now, now) == []


def test_what_is_again_as_it_was_at_first_is_said_again_once() -> None:
    assert context_updates("rain", ["sun"], ["rain"]) == ["rain"]
    assert context_updates("rain\nsoup", ["rain", "soup"], ["rain", "fish"]) == ["fish"]


def test_whose_text_is_gone_is_a_text_like_others() -> None:
    gone = withdrawal_text("porter")
    assert context_updates("rain", ["rain"], [gone]) == [gone]
    assert context_updates("rain", [gone], [gone]) == []
