"""What a model reads of an MCP server's answer."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.items import ImagePart, TextPart
from tertulia.tools.mcp.mcp_tool import result_of
from tertulia.tools.output import bound_output


def test_text_stays_text_and_pictures_follow_it() -> None:
    picture = ImagePart("data:image/png;base64,AA==")
    result = result_of(CallResult("text", parts=(picture,), total_bytes=4), None)
    assert (result.text, result.parts, result.success, result.truncated) == ("text", (picture,), True, False)


def test_an_error_is_an_output_without_success() -> None:
    assert not result_of(CallResult("no", is_error=True), None).success


def test_structured_content_alone_is_the_text() -> None:
    result = result_of(CallResult("", structured={"a": [1, "é"]}), None)
    assert (result.text, result.parts) == ('{"a":[1,"é"]}', ())


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ('{ "b": 1, "a": [true] }', {"a": [True], "b": 1}),
        ("sunny", {"result": "sunny"}),
        ("42", {"result": 42}),
        ("one\ntwo", {"result": ["one", "two"]}),
        ('{"a":1}\n{"a":2}', {"result": [{"a": 1}, {"a": 2}]}),
        ("[1, 2]", [1, 2]),
    ],
)
def test_what_the_text_says_already_is_not_said_twice(text: str, structured: Any) -> None:
    result = result_of(CallResult(text, structured=structured), None)
    assert (result.text, result.parts) == (text, ())


@pytest.mark.parametrize(
    ("text", "structured", "said"),
    [
        ("22 degrees", {"temperature": 22}, '{"temperature":22}'),
        ("sunny", {"result": "rainy"}, '{"result":"rainy"}'),
        ("one", ["one", "two"], '["one","two"]'),
    ],
)
def test_what_the_text_does_not_say_follows_it(text: str, structured: Any, said: str) -> None:
    picture = ImagePart("data:image/png;base64,AA==")
    result = result_of(CallResult(text, structured=structured, parts=(picture,)), None)
    assert (result.text, result.parts) == (text, (TextPart(said), picture))


def test_a_long_text_is_not_read_to_compare_it() -> None:
    assert result_of(CallResult("x" * 100_000, structured={"other": 1}), None).parts == ()


def test_structured_content_that_is_no_json_says_so() -> None:
    result = result_of(CallResult("", structured={"a": object()}), None)
    assert result.text.startswith("[structured content that cannot be written as JSON: ")


def test_the_true_size_is_that_before_the_first_cut() -> None:
    """G3: what came was cut at a mebibyte already, of a text of ten."""
    answer = CallResult("x" * 1_000_000, total_bytes=10_485_760)
    result = result_of(answer, 1_000)
    assert "10,485,760 bytes in all" in result.text
    assert result.truncated
    assert len(result.text.encode()) <= 1_000
    assert bound_output(result, 1_000) == (result, True)


def test_a_cut_that_was_made_before_counts_though_there_is_room() -> None:
    result = result_of(CallResult("head … tail", total_bytes=5_000_000), 65_536)
    assert (result.text, result.truncated) == ("head … tail", True)
