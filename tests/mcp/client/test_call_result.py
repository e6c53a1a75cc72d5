"""Results of any shape and size, made answers."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.mcp.client.call_result import MAX_PICTURE_BYTES, MAX_TEXT_BYTES, parse_call_result
from tertulia.protocol.items import ImagePart
from tests.tables import each_row


def result(*content: Any, **fields: Any) -> Any:
    from mcp_types import CallToolResult

    return CallToolResult.model_validate({"content": list(content), **fields})


def text(message: str) -> dict[str, str]:
    return {"type": "text", "text": message}


def test_a_text_is_a_text() -> None:
    answer = parse_call_result(result(text("hi")))
    assert (answer.text, answer.total_bytes, answer.is_error, answer.parts) == ("hi", 2, False, ())


def test_texts_are_joined_and_an_error_stays_one() -> None:
    answer = parse_call_result(result(text("one"), text("two"), isError=True))
    assert (answer.text, answer.is_error) == ("one\ntwo", True)


def test_nothing_is_an_empty_text() -> None:
    assert parse_call_result(result()).text == ""


@pytest.mark.parametrize("letter", ["a", "é", "𝄞"])
def test_g3_a_long_text_keeps_head_and_tail_and_tells_its_true_size(letter: str) -> None:
    answer = parse_call_result(result(text("head" + letter * MAX_TEXT_BYTES + "tail")))
    total = 8 + MAX_TEXT_BYTES * len(letter.encode())
    assert answer.total_bytes == total
    assert len(answer.text.encode()) <= MAX_TEXT_BYTES + 100
    assert answer.text.startswith("head")
    assert answer.text.endswith("tail")
    assert f"of {total:,} bytes are left out" in answer.text


def test_a_text_just_within_its_bound_is_whole() -> None:
    answer = parse_call_result(result(text("a" * MAX_TEXT_BYTES)))
    assert answer.text == "a" * MAX_TEXT_BYTES


def test_a_picture_is_a_part() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    answer = parse_call_result(result(text("see"), picture))
    assert answer.parts == (ImagePart("data:image/png;base64,AAAA"),)
    assert answer.text == "see"


@each_row(
    ("data", "kind"),
    [("AAAA", "image/svg+xml"), ("AAAA", "text/html;x"), ("not base64!", "image/png"), ("AA\nAA", "image/png")],
)
def test_what_only_claims_to_be_a_picture_is_a_line_of_text(data: str, kind: str) -> None:
    answer = parse_call_result(result({"type": "image", "data": data, "mimeType": kind}))
    assert answer.parts == ()
    assert answer.text.startswith("[a picture of ")


def test_more_pictures_than_fit_are_lines_of_text() -> None:
    picture = {"type": "image", "data": "A" * (MAX_PICTURE_BYTES // 2), "mimeType": "image/png"}
    answer = parse_call_result(result(picture, picture, picture))
    assert len(answer.parts) == 1
    assert answer.text.count("was left out: image/png") == 2


def test_links_sounds_and_resources_are_text() -> None:
    link = {"type": "resource_link", "uri": "file:///b", "name": "b", "description": "about"}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    inside = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
    blob = {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}}
    picture = {"type": "resource", "resource": {"uri": "file:///d", "blob": "AAAA", "mimeType": "image/png"}}
    answer = parse_call_result(result(link, sound, inside, blob, picture))
    assert answer.text.splitlines() == [
        "[b](file:///b): about",
        "[a sound of 3 bytes was left out: audio/wav]",
        "[file:///a]",
        "inside",
        "[file:///c: 3 bytes of data were left out]",
    ]
    assert answer.parts == (ImagePart("data:image/png;base64,AAAA"),)


def test_structure_is_kept_and_is_the_text_where_there_is_no_other() -> None:
    assert parse_call_result(result(structuredContent={"a": 1})).text == '{"a":1}'
    answer = parse_call_result(result(text("one"), structuredContent={"a": [1, None]}))
    assert (answer.text, answer.structured) == ("one", {"a": [1, None]})


def test_too_much_structure_is_left_out() -> None:
    answer = parse_call_result(result(structuredContent={"a": "x" * MAX_TEXT_BYTES}))
    assert answer.structured is None
    assert "structured content of 1,048,584 bytes was left out" in answer.text


def test_a_lone_surrogate_is_replaced() -> None:
    answer = parse_call_result(result(text("a\ud800b")))
    assert answer.text == "a?b"
