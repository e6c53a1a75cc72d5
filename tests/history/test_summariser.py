"""The local summariser: the same text for the same items, and never more than asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.history.summariser import ExtractiveSummariser, Summariser, extract_summary
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Item, Summary
from tests.history.items import call, model, output, seed, thought, user


def messages_of(*texts: str) -> list[Item]:
    return [item for text in texts for item in (user(text), call("a"), output("a", "secret"), thought(), model(text))]


async def test_it_says_what_was_asked_answered_and_used() -> None:
    """X-65, S002-22"""
    items: list[Item] = [
        seed("<env>not asked</env>"),
        user("Fix the parser. It crashes on tabs.", sender="Ana"),
        thought("not shown"),
        call("a", "shell"),
        output("a", "not shown"),
        call("b", "shell"),
        output("b"),
        call("c", "apply_patch"),
        output("c"),
        model("Fixed it.\nAll tests pass."),
        user("Thanks! Now the docs?"),
    ]
    summariser: Summariser = ExtractiveSummariser()
    assert await summariser.summarise(items, 500) == (
        "Asked:\n- Ana: Fix the parser.\n- Thanks!\nAnswered:\n- Fixed it.\nTools used: apply_patch ×1, shell ×2"
    )


def test_what_is_empty_says_nothing_and_an_empty_request_says_so() -> None:
    assert extract_summary([], 100) == ""
    assert extract_summary([thought(), output("a")], 100) == ""
    assert extract_summary([user("")], 100) == "Asked:\n- (no text)"


def test_lines_of_any_kind_become_one_line() -> None:
    """E11"""
    assert extract_summary([user("one\u2028two\u0085three\nfour")], 100) == "Asked:\n- one two three four"


def test_sentences_end_where_other_scripts_end_them() -> None:
    assert extract_summary([user("修复解析器。它会崩溃。")], 100) == "Asked:\n- 修复解析器。"


def test_the_newest_requests_have_precedence() -> None:
    text = extract_summary([user(f"request number {n}") for n in range(100)], 100)
    assert "request number 99" in text
    assert "request number 0\n" not in text


def test_a_request_too_long_for_the_room_shows_its_beginning_and_end() -> None:
    text = extract_summary([user("begin " + "x" * 200 + " end")], 64)
    assert text.startswith("Asked:\n- begin")
    assert text.endswith("end")
    assert " … " in text


def test_a_text_of_10_mb_is_summarised_by_its_beginning() -> None:
    assert len(extract_summary([user("word " * 2_000_000)], 1_000)) < 500


def test_an_earlier_summary_is_carried_on_and_repeating_never_grows() -> None:
    """X-65"""
    budget, summary = 200, Summary(ItemId("s"), "The goal is a parser.")
    for number in range(50):
        text = extract_summary([summary, *messages_of(f"Step {number} of the plan. " + "more " * 50)], budget)
        assert len(text.encode()) <= budget * 4
        assert f"Step {number}" in text
        summary = Summary(ItemId("s"), text)
    assert summary.text.startswith("The goal is a parser.")


def test_the_budget_holds_when_every_section_is_full() -> None:
    words = [*map("".join, zip("abcdefghij", "klmnopqrst", strict=True))]
    items: list[Item] = [Summary(ItemId("s"), "x" * 9_000)]
    for word in words:
        items += [user(word * 150), call("a", word * 30), output("a"), model(word * 150)]
    for budget in range(500):
        assert len(extract_summary(items, budget).encode()) <= budget * 4


@given(st.lists(st.text(max_size=300), max_size=8), st.text(max_size=600), st.integers(0, 150))
def test_the_budget_holds_for_any_text_and_the_result_is_always_the_same(
    texts: list[str], earlier: str, budget: int
) -> None:
    """X-65"""
    items = [Summary(ItemId("s"), earlier), *messages_of(*texts)]
    text = extract_summary(items, budget)
    assert len(text.encode()) <= budget * 4
    assert text == extract_summary(items, budget)


def test_what_is_cut_fills_the_room_that_it_has() -> None:
    earlier = Summary(ItemId("s"), "x" * 10_000, 1)
    text = extract_summary([earlier], 400)
    assert 800 - 2 <= len(text.encode()) <= 800, "half of the budget, in bytes"
