"""Whatever a line holds: one refusal with its code, and the next request is served as if nothing had been."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tertulia.protocol.line_framing import LineSplitter
from tests.server.client import Client, Message, connected, is_event
from tests.server.jsonrpc.test_strict_json import BROKEN
from tests.tables import Large, each_row

PARSE = (-32700, "parse_error")
REQUEST = (-32600, "invalid_request")
METHOD = (-32601, "method_not_found")
PARAMS = (-32602, "invalid_params")

LISTING = '{"jsonrpc":"2.0","id":"next","method":"conversation/list"}'


def saying(text: str) -> str:
    """A message whose text is this JSON, escapes and all."""
    return (
        '{"jsonrpc":"2.0","id":7,"method":"conversation/message",'
        f'"params":{{"conversation_id":"root","text":{text}}}}}'
    )


def request(method: str = "conversation/list", **parts: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, **parts})


async def last_answer(client: Client, line: bytes | str) -> Message:
    """What a line is answered with; the line after it must be answered too, and with nothing in between."""
    start = len(client.sink.sent)
    await client.send(line)
    await client.send(LISTING)
    await client.sink.until(lambda m: m.get("id") == "next", start)
    answers = [m for m in client.sink.messages[start:] if not is_event(m)]
    assert len(answers) == 2, "every line gets exactly one answer"
    assert "result" in answers[1]
    return answers[0]


async def assert_refused(line: bytes | str, expected: tuple[int, str], id: Any) -> None:
    async with connected() as client:
        before = await client.call("conversation/list")
        answer = await last_answer(client, line)
        error = answer["error"]
        assert (error["code"], error["data"]["code"]) == expected
        assert answer["id"] == id
        assert error["message"]
        assert await client.call("conversation/list") == before, "nothing was left behind"


@each_row("session_id", [5, 1.5, True, [], {}])
@each_row("method", ["session/info", "session/resume", "session/close", "events/subscribe", "task/list"])
async def test_a_session_is_named_by_a_text(method: str, session_id: Any) -> None:
    """Issue 10: what can be the name of none is a wrong parameter, not a session that is gone."""
    await assert_refused(request(method, params={"session_id": session_id}), PARAMS, 7)


@each_row("line", [line for line in BROKEN.values() if line.strip()], ids=[n for n, v in BROKEN.items() if v.strip()])
async def test_a_line_that_cannot_be_parsed_is_refused_under_no_id(line: bytes) -> None:
    """D9."""
    await assert_refused(line, PARSE, None)


INSIDE = {
    "NaN": saying("NaN"),
    "Infinity": saying("-Infinity"),
    "duplicate key": saying('"a","text":"b"'),
    "100,000 nested": saying("[" * 100_000 + "]" * 100_000),
    "10,000-digit integer": saying("1" * 10_000),
    "raw surrogate": saying('"\ud800"'),
    "bad UTF-8": saying('"@"').encode().replace(b"@", b"\xfe"),
    "byte order mark": b"\xef\xbb\xbf" + request().encode(),
}


@each_row("line", INSIDE.values(), ids=INSIDE.keys())
async def test_a_request_that_cannot_be_parsed_is_refused_under_no_id(line: bytes | str) -> None:
    """D9."""
    await assert_refused(line, PARSE, None)


@each_row(
    "line",
    [
        saying(r'"\ud800"'),
        saying(r'"ok \uDFFF ok"'),
        request("conversation/open", params={"title": "\ud800"}),
        request("conversation/open", params={"agent": {"name": ["\udc00"]}}),
        request("conversation/open", params={"\ud800": 1}),
        request("conversation/list", params={"session_id": "\ud800"}),
        saying("1" * 25),
        saying("12"),
        saying("null"),
        saying('""'),
        Large(lambda: saying(json.dumps("a" * (16 * 1024 * 1024 + 1)))),
        request(params=[]),
        request(params=["root"]),
        request(params="root"),
        request(params=0),
        request(params=False),
        request(params={"unheard_of": 1}),
        request("conversation/message", params={"conversation_id": "root", "text": "a", "conversationId": "root"}),
        request("conversation/history", params={"conversation_id": "root", "limit": "many"}),
        request("conversation/history", params={"conversation_id": "root", "limit": 0}),
        request("conversation/close", params={"conversation_id": "root"}),
    ],
    ids=lambda line: "large" if isinstance(line, Large) else line[:100],
)
async def test_wrong_parameters_are_refused_under_the_requests_id(line: str) -> None:
    """D9."""
    await assert_refused(line, PARAMS, 7)


async def test_an_unknown_field_is_refused_by_its_name() -> None:
    async with connected() as client:
        error = await client.fail("conversation/open", bogus_field=1)
        assert "bogus_field" in error["message"]


@each_row("id", [None, True, False, {}, {"a": 1}, [], [1]])
async def test_an_illegal_id_is_refused_under_no_id(id: Any) -> None:
    """D10."""
    await assert_refused(request(id=id), REQUEST, None)


@each_row("id", ["", "x", 0, -1, 1.5, 2**53 + 1, 10**30])
async def test_a_legal_id_comes_back_as_it_was(id: Any) -> None:
    """D10."""
    async with connected() as client:
        answer = await last_answer(client, request(id=id))
        assert "result" in answer
        assert answer["id"] == id
        assert type(answer["id"]) is type(id)


@each_row(
    ("line", "id"),
    [
        ("{}", None),
        ("1", None),
        ('"text"', None),
        ("null", None),
        ("true", None),
        ('{"id":7,"method":"conversation/list"}', 7),
        ('{"jsonrpc":"1.0","id":7,"method":"conversation/list"}', 7),
        ('{"jsonrpc":2.0,"id":7,"method":"conversation/list"}', 7),
        ('{"jsonrpc":"2.0","id":7}', 7),
        ('{"jsonrpc":"2.0","id":7,"method":null}', 7),
        ('{"jsonrpc":"2.0","id":7,"method":["a"]}', 7),
        ('{"jsonrpc":"2.0","id":7,"result":{}}', 7),
        (r'{"jsonrpc":"2.0","id":7,"method":"\ud800"}', 7),
        (r'{"jsonrpc":"2.0","id":"\ud800","method":"conversation/list"}', None),
        ("[]", None),
        (json.dumps([json.loads(request())] * 101), None),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_what_is_not_a_request_is_refused(line: str, id: Any) -> None:
    await assert_refused(line, REQUEST, id)


@each_row("method", ["", "no/such", "conversation", "Conversation/List", "event", "x" * 100_000, "\0"])
async def test_an_unknown_method_is_refused_shortly(method: str) -> None:
    await assert_refused(request(method), METHOD, 7)


@each_row(
    ("method", "params"),
    [
        ("conversation/list", {}),
        ("session/start", {}),
        ("events/subscribe", {}),
        ("no/such", {}),
        ("conversation/message", {"conversation_id": "root", "text": "hi"}),
    ],
)
async def test_before_initialize_nothing_else_is_served(method: str, params: dict[str, Any]) -> None:
    """D16."""
    async with connected(initialize=False) as client:
        error = await client.fail(method, **params)
        assert (error["code"], error["data"]) == (-32002, {"code": "not_initialized"})
        assert len(client.sink.sent) == 1
        await client.initialize()
        await client.call("conversation/list")


async def test_a_second_initialize_is_refused_and_the_first_one_holds() -> None:
    """D16."""
    async with connected() as client:
        error = await client.fail("initialize", client={"name": "again"})
        assert (error["code"], error["data"]) == (-32600, {"code": "invalid_request"})
        sessions = (await client.call("session/list"))["sessions"]
        assert [session["session_id"] for session in sessions] == [client.session_id]


@each_row(
    "params",
    [
        {"client": "me"},
        {"client": {"version": "1"}},
        {"client": {"name": 1}},
        {"client": {"name": "x"}, "protocol_version": 3},
        {"clientInfo": {"name": "x"}},
    ],
)
async def test_a_wrong_initialize_is_refused_and_a_right_one_may_follow(params: dict[str, Any]) -> None:
    """D16."""
    async with connected(initialize=False) as client:
        error = await client.fail("initialize", **params)
        assert (error["code"], error["data"]["code"]) == PARAMS
        assert (await client.fail("conversation/list"))["code"] == -32002
        await client.initialize()


# ── anything at all ──────────────────────────────────────────────────────────────────────────────────────────

requestlike = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", None]),
        "id": st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False) | st.booleans(),
        "method": st.sampled_from(["initialize", "initialized", "conversation/list", "events/subscribe", "x", 1]),
        "params": st.dictionaries(st.sampled_from(["after_seq", "session_id", "client"]), st.none() | st.integers())
        | st.lists(st.integers(), max_size=2),
    },
)
anything = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda value: json.dumps(value).encode(), requestlike | st.lists(requestlike, max_size=4)),
    st.builds(
        lambda value, cut: json.dumps(value).encode()[:cut], requestlike, st.integers(min_value=0, max_value=200)
    ),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(anything, max_size=6), st.integers(1, 50))
async def test_any_bytes_get_at_most_one_answer_a_line_and_the_connection_lives(parts: list[bytes], size: int) -> None:
    """D9."""
    data = b"\n".join(parts)
    async with connected(initialize=False) as client:
        lines = LineSplitter()
        count = 0
        for start in range(0, len(data), size):
            for line in lines.feed(data[start : start + size]):
                count += 1
                await client.send(line if isinstance(line, bytes) else b"")
        for line in lines.end():
            count += 1
            await client.send(line if isinstance(line, bytes) else b"")
        answer = await client.ask("conversation/list")
        await client.answer(answer)
        answers = [m for m in client.sink.messages if not is_event(m)]
        assert len(answers) <= count + 1
