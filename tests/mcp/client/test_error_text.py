"""Errors of servers, in words of ours."""

from __future__ import annotations

import pytest
from mcp import MCPError
from mcp_types import CallToolResult
from pydantic import ValidationError

from tertulia.mcp.client.error_text import NO_ANSWER, explain_error, quote_server_text, sdk_errors, server_error
from tests.tables import each_row


def test_the_error_names_the_server_and_the_reason() -> None:
    error = server_error("git", "timeout", "it is slow")
    assert error.message == "git: it is slow"
    assert error.detail == {"server": "git", "reason": "timeout"}
    assert error.code == "mcp_error"


def test_a_servers_words_are_bounded_and_show_what_they_hide() -> None:
    """C6, B10."""
    assert quote_server_text(" a\x1b[2Jb\u202e ") == "a⟨U+001B⟩[2Jb⟨U+202E⟩"
    assert len(quote_server_text("x" * 100_000)) < 1000


@each_row(
    ("error", "reason", "sentence"),
    [
        (MCPError(-32000, "Connection closed"), "closed", "the connection is closed"),
        (
            MCPError(-32000, "SSE stream ended without a response"),
            "closed",
            "the connection is closed",
        ),
        (MCPError(NO_ANSWER, "gone"), "closed", "the connection is closed (gone)"),
        (MCPError(-32000, "License expired"), "refused", "the server answered with error -32000: License expired"),
        (MCPError(-32700, "Unreadable: it is deep"), "protocol", "the server's answer cannot be read: it is deep"),
        (MCPError(-32001, "timed out"), "timeout", "the server does not answer"),
        (MCPError(-32602, "no\x07"), "refused", "the server answered with error -32602: no⟨U+0007⟩"),
        (MCPError(-32700, "Failed to parse SSE message: 1 error"), "protocol", "the server's answer cannot be read"),
        (MCPError(-32700, "mine"), "refused", "the server answered with error -32700: mine"),
        (ConnectionRefusedError(111, "refused"), "closed", "the server cannot be reached: refused"),
        (TimeoutError(), "closed", "the server cannot be reached: it takes too long"),
        (RuntimeError("rounds"), "protocol", "the server's answer cannot be used"),
        (
            RuntimeError("Unsupported protocol version from the server: 1999"),
            "protocol",
            "it speaks version 1999 of the protocol, which is not known here",
        ),
        (KeyError(), "protocol", "the server's answer cannot be used"),
        ("a\ud800", "protocol", "a text of the call cannot be written as UTF-8"),
    ],
)
def test_every_fault_has_a_sentence(error: Exception | str, reason: str, sentence: str) -> None:
    if isinstance(error, str):
        with pytest.raises(UnicodeEncodeError) as broken:
            error.encode()
        error = broken.value
    assert isinstance(error, sdk_errors())
    assert explain_error(error) == (reason, sentence)
    assert explain_error(ExceptionGroup("x", [ExceptionGroup("y", [error])])) == (reason, sentence)


def test_an_answer_of_the_wrong_shape_is_told_by_its_place_and_not_by_its_words() -> None:
    with pytest.raises(ValidationError) as broken:
        CallToolResult.model_validate({"content": "a private word"})
    assert isinstance(broken.value, sdk_errors())
    reason, sentence = explain_error(broken.value)
    assert reason == "protocol"
    assert sentence.endswith("at `content`: expected a list")
    assert "private" not in sentence
