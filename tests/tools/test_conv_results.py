"""Answers of conversation tools: JSON in every case, and within their room."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import HeadersOnly
from tertulia.tools.conv_results import listing_result, shorten_echo, success_result, target_result
from tertulia.tools.tool import ConversationEntries, TargetResult
from tests.tables import each_row

ID = ConversationId("7d0d1d4b-0000-4000-8000-000000000000")


def seen(*entries: dict[str, Any], storage: Any = None) -> ConversationEntries:
    return ConversationEntries(len(entries), lambda index: dict(entries[index]), storage)


def read(text: str) -> dict[str, Any]:
    return json.loads(text)


def test_an_answer_is_a_success() -> None:
    result = target_result(TargetResult(ID, "completed", "yes"), {"first_user_message": "well?"})
    assert result.success
    assert read(result.text) == {
        "ok": True,
        "status": "completed",
        "conversation_id": ID,
        "first_user_message": "well?",
        "last_assistant_message": "yes",
    }


@each_row("text", [None, ""])
def test_silence_is_none(text: str | None) -> None:
    """X-14"""
    result = target_result(TargetResult(ID, "completed", text), {})
    assert (result.success, read(result.text)["ok"]) == (False, False)


def test_a_failure_has_a_code_a_reason_and_what_was_said() -> None:
    """X-02, X-14"""
    result = target_result(TargetResult(None, "failed", "half", "limit", "too much"), {})
    assert not result.success
    assert read(result.text) == {
        "ok": False,
        "status": "failed",
        "code": "limit",
        "reason": "too much",
        "error": {"code": "limit", "message": "too much"},
        "last_assistant_message": "half",
    }
    assert read(target_result(TargetResult(None, "failed", None, "limit"), {}).text)["reason"] == "limit"


@given(st.text(), st.integers(600, 3_000), st.integers(1, 400))
def test_a_long_answer_is_cut_inside_its_json(text: str, room: int, times: int) -> None:
    """S004-34: a JSON string for all five, whatever the text holds and however little room there is."""
    long = text * times
    result = target_result(TargetResult(ID, "completed", long or None, room=room), {})
    payload = read(result.text)
    assert len(result.text.encode()) <= room
    assert payload.get("truncated", False) is result.truncated
    if not result.truncated:
        assert payload["last_assistant_message"] == (long or None)


@each_row("character", ["x", '"', "\x01", "語", "\n"])
def test_as_much_is_kept_as_fits(character: str) -> None:
    result = target_result(TargetResult(ID, "completed", character * 100_000, room=10_000), {})
    assert 8_000 <= len(result.text.encode()) <= 10_000


def test_where_nothing_fits_what_is_left_is_whole() -> None:
    assert (
        read(target_result(TargetResult(ID, "completed", "x" * 1_000, room=10), {}).text)["last_assistant_message"]
        == ""
    )


def test_without_a_limit_there_is_one() -> None:
    result = target_result(TargetResult(ID, "completed", "x" * 3_000_000), {})
    assert len(result.text) <= 1024 * 1024


def test_the_callers_own_words_are_repeated_briefly() -> None:
    assert shorten_echo("hi") == "hi"
    assert len(shorten_echo("x" * 100_000)) <= 1_000


def test_done_is_done() -> None:
    assert success_result({}).text == '{"ok":true}'


def test_a_listing_that_fits_has_everything_in_order() -> None:
    result = listing_result("entries", seen({"text": "a"}, {"text": "b"}), None)
    assert read(result.text) == {"ok": True, "entries": [{"text": "a"}, {"text": "b"}]}
    assert (result.success, result.truncated, result.storage) == (True, False, None)


def test_nothing_is_listed_as_nothing() -> None:
    assert read(listing_result("entries", seen(), None, first=True).text) == {"ok": True, "entries": []}


def test_of_too_many_the_newest_stay_and_the_rest_is_counted() -> None:
    """S004-10: bounded, newest kept, oldest first."""
    entries = [{"text": f"{n:03}"} for n in range(100)]
    result = listing_result("entries", seen(*entries), 400)
    payload = read(result.text)
    texts = [entry["text"] for entry in payload["entries"]]
    assert texts == [f"{n:03}" for n in range(100 - len(texts), 100)]
    assert payload["omitted"] == 100 - len(texts) > 0
    assert (result.truncated, len(result.text) <= 400) == (True, True)


def test_the_first_is_always_among_them() -> None:
    entries = [{"id": n} for n in range(100)]
    ids = [entry["id"] for entry in read(listing_result("list", seen(*entries), 200, first=True).text)["list"]]
    assert ids[0] == 0
    assert ids[1:] == list(range(100 - len(ids) + 1, 100))


def test_the_newest_is_given_shorter_rather_than_not_at_all() -> None:
    pictures = [{"type": "image", "image_url": "data:" + "x" * 5_000}]
    entries = seen({"text": "old"}, {"role": "user", "text": "y" * 5_000, "attachments": pictures})
    (entry,) = read(listing_result("entries", entries, 1_000).text)["entries"]
    assert entry["role"] == "user"
    assert entry["text"].startswith("yyy")
    assert (entry["attachments"], entry["attachments_omitted"]) == ([], 1)
    plain = read(listing_result("entries", seen({"text": "y" * 5_000}), 1_000).text)["entries"]
    assert plain[0]["truncated"]


def test_a_picture_that_does_not_fit_ends_the_listing() -> None:
    pictures = [{"type": "image", "image_url": "data:" + "x" * 5_000}]
    result = listing_result("entries", seen({"text": "old"}, {"attachments": pictures}), 1_000)
    assert read(result.text) == {"ok": True, "entries": [], "omitted": 2}


def test_the_policy_of_what_was_seen_goes_along() -> None:
    assert listing_result("entries", seen(storage=HeadersOnly()), None).storage == HeadersOnly()


def test_entries_that_do_not_fit_are_not_even_made() -> None:
    made: list[int] = []

    def entry(index: int) -> dict[str, Any]:
        made.append(index)
        return {"text": "x" * 100}

    listing_result("entries", ConversationEntries(10_000, entry), 1_000)
    assert len(made) < 20
