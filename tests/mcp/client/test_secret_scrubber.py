"""What a server was given in confidence is read back by nobody."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.client.secret_scrubber import REPLACEMENT, SecretScrubber
from tertulia.mcp.server_connection import CallResult, Elicitation, SamplingRequest
from tertulia.protocol.items import ImagePart
from tests.mcp.connected import Asked, Reach, call
from tests.mcp.fakes import bare, by_stdio

KEY = 'k3y-of "the" server\\n'


def test_it_is_taken_out_of_texts_structures_and_names_of_fields() -> None:
    """HARDENING E6"""
    scrubber = SecretScrubber([KEY])
    call_result = CallResult(
        f"a {KEY} b", parts=(ImagePart("data:image/png;base64,AAAA"),), structured={KEY: [{"x": KEY}, 1.5]}
    )
    assert scrubber.clean(call_result) == CallResult(
        f"a {REPLACEMENT} b", parts=call_result.parts, structured={REPLACEMENT: [{"x": REPLACEMENT}, 1.5]}
    )
    assert scrubber.clean(Elicitation("s", KEY, {"title": KEY})) == Elicitation(
        "s", REPLACEMENT, {"title": REPLACEMENT}
    )
    sampling_request = SamplingRequest("s", (("user", KEY),), None, 5)
    assert scrubber.clean(sampling_request).messages == (("user", REPLACEMENT),)


def test_a_text_that_is_json_itself_hides_nothing() -> None:
    """HARDENING E6"""
    call_result = CallResult(json.dumps({"env": {"KEY": KEY}}))
    assert SecretScrubber([KEY]).clean(call_result).text == json.dumps({"env": {"KEY": REPLACEMENT}})


def test_of_two_the_longer_goes_whole() -> None:
    assert (
        SecretScrubber(["12345678", "12345678abcdefgh"]).text("12345678abcdefgh 12345678")
        == f"{REPLACEMENT} {REPLACEMENT}"
    )


@pytest.mark.parametrize("secrets", [(), ("short",), ("another-secret",)])
def test_where_there_is_nothing_to_take_out_it_is_the_same_object(secrets: tuple[str, ...]) -> None:
    call_result = CallResult("short and plain", structured={"a": [1]})
    assert SecretScrubber(secrets).clean(call_result) is call_result


@given(secret=st.text(min_size=8, max_size=20).filter(lambda s: s not in REPLACEMENT), around=st.text(max_size=20))
def test_no_value_survives_whatever_it_is_made_of(secret: str, around: str) -> None:
    """HARDENING E6"""
    fields = {"a": around + secret + around}
    try:
        msgspec.json.encode(fields)
    except (UnicodeEncodeError, TypeError):
        return
    assert secret not in SecretScrubber([secret]).clean(fields)["a"].replace(REPLACEMENT, "\0")


async def test_a_server_cannot_say_its_key_to_anybody(reach: Reach) -> None:
    """HARDENING E6, C16: not in an answer, an error, a description, a question, nor in how far it is."""
    key = "s3cret-value-9000"
    link = await reach(by_stdio(bare(), env={"API_KEY": key}, sampling=True))
    caller = Asked()
    answers = [
        await call(link, "echo", text=f"it is {key}"),
        await call(link, "fail", text=key),
        await call(link, "env"),
        await call(link, "ask", caller, question=f"is {key} right?"),
        await call(link, "sample", caller, text=key),
    ]
    assert all(key not in answer.text and REPLACEMENT in answer.text for answer in answers[:3])
    assert key not in repr(caller.questions)
    assert REPLACEMENT in repr(caller.questions)
    await call(link, "define", tools=[{"name": "echo", "description": f"key {key}", "inputSchema": {"type": "object"}}])
    ((tool,)) = (await link.list_tools()).tools
    assert tool.description == f"key {REPLACEMENT}"
    assert (await call(link, "echo", text="no key")).text == "no key"
