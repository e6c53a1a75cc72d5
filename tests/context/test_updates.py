"""Of a context that has changed an agent is told what is new, and no more."""

from __future__ import annotations

import pytest

from tertulia.context.provider import Fragment
from tertulia.context.updates import unheard, updates


def fragments(**texts: str) -> list[Fragment]:
    return [Fragment(name, text, 1) for name, text in texts.items()]


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        ({}, {}, []),
        ({"a": "one"}, {"a": "one"}, []),
        ({"a": "one"}, {"a": "two"}, ["two"]),
        ({"a": "one"}, {"a": "one", "b": "two"}, ["two"]),
        ({"a": "one", "b": "two"}, {"b": "two", "a": "one"}, []),
        ({"a": "one", "b": "two"}, {"b": "two"}, ["What was said above by a no longer holds."]),
        ({"a": "## x\n\n1\n\n## y\n\n2"}, {"a": "## x\n\n1\n\n## y\n\n3"}, ["## y\n\n3"]),
        ({"a": "head\n## x\n1"}, {"a": "other\n## x\n1"}, ["other"]),
        ({"a": "## x\n\n1"}, {"a": "## x\n\n1\n"}, []),
        ({"a": "a # b\n### c"}, {"a": "a # b\n### d"}, ["a # b\n### d"]),
    ],
)
def test_sections_that_were_said_word_for_word_are_not_repeated(
    before: dict[str, str], now: dict[str, str], news: list[str]
) -> None:
    """Issue 9, item 1: dynamic refresh."""
    assert updates(fragments(**before), fragments(**now)) == news


def test_where_somebody_did_not_answer_nothing_is_known_to_be_gone() -> None:
    assert updates(fragments(a="one", b="two"), fragments(b="three"), complete=False) == ["three"]


def test_what_stands_anywhere_in_what_was_heard_was_heard() -> None:
    assert unheard("## x\n1\n## y\n2", "<tag>\n\n## x\n1\n\n</tag>") == ["## y\n2"]
    assert unheard("", "x") == []
