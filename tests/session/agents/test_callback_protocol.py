"""What is said at the callback socket."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.session.agents.callback_protocol import CallbackCall, CallbackHello, CallbackReply


def test_a_token_is_not_printed() -> None:
    """S001-45."""
    assert repr(CallbackHello("f" * 64)) == "CallbackHello(…)"


@pytest.mark.parametrize(
    ("kind", "line"), [(CallbackHello, b'{"token":"x","as":"y"}'), (CallbackCall, b'{"tool":"x","agent":"y"}')]
)
def test_nothing_is_taken_for_what_it_is_not(kind: type[msgspec.Struct], line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(line, type=kind)


def test_what_is_told_is_read_back() -> None:
    for callback_reply in (CallbackReply({"ok": True}), CallbackReply(error={"code": "busy", "message": "Later."})):
        assert msgspec.json.decode(msgspec.json.encode(callback_reply), type=CallbackReply) == callback_reply
