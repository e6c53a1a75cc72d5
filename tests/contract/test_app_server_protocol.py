"""The wire itself, by a client that knows only the public page: framing, hello, errors, batches, goodbye."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import DEADLINE_S, NEVER_MS, Refused, Server, is_event, serving


async def refusal(server: Server, line: bytes) -> dict[str, Any]:
    """The error to one line that is not a good request."""
    start = len(server.lines)
    await server.send(line)
    response = await server.until(lambda answer: not is_event(answer), start)
    assert response["jsonrpc"] == "2.0"
    assert "result" not in response
    return response


async def alive(server: Server) -> None:
    """It still serves."""
    assert (await server.call("conversation/list"))["conversations"]


# ---- hello


async def test_initialize_comes_first_and_names_session_versions_and_capabilities(tmp_path: Path) -> None:
    """X-69: a protocol version, and flags to go by instead of it."""
    async with serving(tmp_path, [], hello=False) as server:
        hello = await server.call("initialize", client={"name": "t", "version": "1"})
        info = await server.call("session/info")
        assert hello["protocol_version"] == info["protocol_version"]
        assert hello["session_id"] == info["session_id"]
        assert hello["capabilities"]["approvals"] is True
        assert set(map(type, hello["capabilities"].values())) == {bool}
        assert await server.end() == 0


async def test_whoever_has_not_said_hello_is_not_served(tmp_path: Path) -> None:
    """D16: −32002 not_initialized."""
    async with serving(tmp_path, ["Hello."], hello=False) as server:
        for method in ("session/info", "conversation/list", "conversation/message", "events/subscribe", "task/list"):
            with pytest.raises(Refused) as caught:
                await server.call(method)
            assert (caught.value.number, caught.value.code) == (-32002, "not_initialized"), method
        assert not server.events
        await server.call("initialize", client={"name": "t", "version": "1"})
        await alive(server)


async def test_a_second_hello_is_refused_and_the_first_still_holds(tmp_path: Path) -> None:
    """D16."""
    async with serving(tmp_path, []) as server:
        with pytest.raises(Refused):
            await server.call("initialize", client={"name": "t", "version": "1"})
        await alive(server)


async def test_an_unknown_protocol_version_is_answered_with_ours(tmp_path: Path) -> None:
    """D16."""
    async with serving(tmp_path, [], hello=False) as server:
        hello = await server.call("initialize", client={"name": "t", "version": "1"}, protocol_version="9999-99")
        assert hello["protocol_version"] != "9999-99"
        assert hello["protocol_version"] == (await server.call("session/info"))["protocol_version"]


async def test_hello_refuses_what_it_does_not_know_by_name_and_understands_camel_case(tmp_path: Path) -> None:
    """S000-35."""
    async with serving(tmp_path, [], hello=False) as server:
        with pytest.raises(Refused, match="colour") as caught:
            await server.call("initialize", client={"name": "t", "version": "1"}, colour="blue")
        assert (caught.value.number, caught.value.code) == (-32602, "invalid_params")
        await server.call("initialize", client={"name": "t", "version": "1"}, protocolVersion="1")


# ---- what is not a request


NOT_JSON = [
    b"{",
    b"hello",
    b"\xff\xfe",
    b'{"jsonrpc": "2.0", "id": 1, "method": "session/info", "params": {"x": NaN}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "session/info", "method": "session/close"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
]

NO_REQUEST = [
    b"3",
    b'"hello"',
    b"null",
    b"{}",
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "1.0", "id": 1, "method": "session/info"}',
    b'{"id": 1, "method": "session/info"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "session/info"}',
    b'{"jsonrpc": "2.0", "id": [1], "method": "session/info"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "session/info"}',
    b"[]",
]


async def test_a_line_that_is_not_json_answers_with_id_null(tmp_path: Path) -> None:
    """D9: −32700, and the server lives."""
    async with serving(tmp_path, []) as server:
        for line in NOT_JSON:
            response = await refusal(server, line)
            assert response["id"] is None, line[:80]
            found = (response["error"]["code"], response["error"]["data"]["code"])
            assert found == (-32700, "parse_error"), line[:80]
        await alive(server)


async def test_json_that_is_not_a_request_is_an_invalid_request(tmp_path: Path) -> None:
    """D10: −32600, and the server lives."""
    async with serving(tmp_path, []) as server:
        for line in NO_REQUEST:
            response = await refusal(server, line)
            found = (response["error"]["code"], response["error"]["data"]["code"])
            assert found == (-32600, "invalid_request"), line
        await alive(server)


async def test_parameters_that_have_no_names_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        for params in (b"3", b'"x"', b'["root"]'):
            line = b'{"jsonrpc": "2.0", "id": 1, "method": "conversation/history", "params": ' + params + b"}"
            response = await refusal(server, line)
            assert response["error"]["code"] in {-32600, -32602}, params
        await alive(server)


async def test_an_unknown_method_is_not_found_by_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        with pytest.raises(Refused, match="conversation/dance") as caught:
            await server.call("conversation/dance")
        assert (caught.value.number, caught.value.code) == (-32601, "method_not_found")


async def test_an_answer_carries_the_id_of_its_request_as_it_was(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        for id in (1_000, "one", "", 0, -7, 2**53, "ünï"):
            await server.send({"jsonrpc": "2.0", "id": id, "method": "session/info"})
            response = await server.reply(id)
            assert type(response["id"]) is type(id)
            assert "result" in response


async def test_a_notification_is_never_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        before = len([line for line in server.lines if not is_event(line)])
        await server.send({"jsonrpc": "2.0", "method": "conversation/open", "params": {"title": "quiet"}})
        await server.send({"jsonrpc": "2.0", "method": "conversation/dance"})
        listed = await server.call("conversation/list")
        assert len([line for line in server.lines if not is_event(line)]) == before + 1
        assert [entry["title"] for entry in listed["conversations"]][1:] in ([], ["quiet"])


# ---- batches


async def test_a_batch_is_answered_with_one_array(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        await server.send(
            [
                {"jsonrpc": "2.0", "id": "a", "method": "session/info"},
                {"jsonrpc": "2.0", "method": "conversation/list"},
                {"jsonrpc": "2.0", "id": "b", "method": "conversation/dance"},
                17,
            ]
        )
        answers = await server.until(lambda line: isinstance(line, list))
        by_id = {answer["id"]: answer for answer in answers}
        assert len(answers) == 3
        assert "result" in by_id["a"]
        assert by_id["b"]["error"]["code"] == -32601
        assert by_id[None]["error"]["code"] == -32600


async def test_a_batch_has_at_most_a_hundred_requests(tmp_path: Path) -> None:
    """D10."""
    one = {"jsonrpc": "2.0", "method": "session/info"}
    async with serving(tmp_path, []) as server:
        await server.send([{**one, "id": number} for number in range(100)])
        answers = await server.until(lambda line: isinstance(line, list))
        assert sorted(answer["id"] for answer in answers) == list(range(100))
        await server.send([{**one, "id": number} for number in range(101)])
        refused = await server.until(lambda line: not is_event(line) and "error" in line)
        assert refused["error"]["code"] == -32600
        assert refused["id"] is None
        await alive(server)


# ---- bad parameters


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("conversation/open", {"base_instruction": "x"}, "base_instruction"),
    ("conversation/open", {"colour": "blue"}, "colour"),
    ("conversation/open", {"limits": {"max_sheep": 3}}, "max_sheep"),
    ("conversation/message", {"conversation_id": "root", "text": "x", "colour": 1}, "colour"),
    ("conversation/list", {"colour": 1}, "colour"),
    ("conversation/history", {"conversation_id": "root", "colour": 1}, "colour"),
    ("conversation/close", {"conversation_id": "root", "colour": 1}, "colour"),
    ("conversation/set_context", {"conversation_id": "root", "colour": 1}, "colour"),
    ("session/info", {"colour": 1}, "colour"),
    ("events/subscribe", {"colour": 1}, "colour"),
    ("task/list", {"colour": 1}, "colour"),
    ("conversation/message", {"text": "x"}, "conversation_id"),
    ("conversation/steer", {"conversation_id": "root"}, "text"),
    ("conversation/history", {"conversation_id": 3}, "conversation_id"),
    ("conversation/open", {"include_plan_tool": "yes"}, "include_plan_tool"),
    ("conversation/open", {"base_instructions": ["x"]}, "base_instructions"),
    ("conversation/message", {"conversation_id": "root", "text": "x", "if_busy": "panic"}, "if_busy"),
    ("conversation/message", {"conversation_id": "root", "text": "x", "task_type": "song"}, "task_type"),
    ("conversation/message", {"conversation_id": "root", "text": "x", "detach": "yes"}, "detach"),
    ("conversation/close", {"conversation_id": "root", "timeout_s": "long"}, "timeout_s"),
    ("conversation/history", {"conversation_id": "root", "limit": 0}, "limit"),
    ("conversation/history", {"conversation_id": "root", "limit": -1}, "limit"),
    ("conversation/history", {"conversation_id": "root", "limit": 1.5}, "limit"),
    ("events/subscribe", {"after_seq": -1}, "after"),
    ("conversation/open", {"visibility": "everybody"}, "visibility"),
    ("conversation/open", {"shell_mode": "loud"}, "shell_mode"),
]


async def test_wrong_parameters_are_refused_by_name_and_leave_nothing_behind(tmp_path: Path) -> None:
    """S000-29, S004-10: −32602 invalid_params."""
    async with serving(tmp_path, ["Hello."]) as server:
        for method, params, named in WRONG:
            with pytest.raises(Refused, match=named) as caught:
                await server.call(method, **params)
            assert (caught.value.number, caught.value.code) == (-32602, "invalid_params"), (method, params)
        assert len((await server.call("conversation/list"))["conversations"]) == 1
        assert {event["type"] for event in server.events} == {"session_configured", "conversation_opened"}
        assert (await server.say("Hello"))["last_assistant_message"] == "Hello."


async def test_an_empty_message_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hello."]) as server:
        empty: list[dict[str, Any]] = [{}, {"text": ""}, {"items": []}, {"text": "", "items": []}, {"text": None}]
        for params in empty:
            with pytest.raises(Refused) as caught:
                await server.call("conversation/message", conversation_id="root", **params)
            assert (caught.value.number, caught.value.code) == (-32602, "invalid_params"), params
        assert "task_started" not in [event["type"] for event in server.events]


async def test_a_lone_surrogate_is_refused_under_the_id_of_its_request(tmp_path: Path) -> None:
    """D9."""
    async with serving(tmp_path, ["Hello."]) as server:
        for text in (rb"\ud800", rb"a\udc00b", rb"\udfff\ud800"):
            params = b'{"conversation_id": "root", "text": "' + text + b'"}'
            line = b'{"jsonrpc": "2.0", "id": "s", "method": "conversation/message", "params": ' + params + b"}"
            response = await refusal(server, line)
            assert response["id"] == "s"
            assert (response["error"]["code"], response["error"]["data"]["code"]) == (-32602, "invalid_params")
        assert (await server.say("Hello"))["last_assistant_message"] == "Hello."


async def test_texts_up_to_sixteen_megabytes_are_taken_and_longer_ones_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Long.", "Hello."]) as server:
        long = await server.say("x" * 16_000_000)
        assert long["last_assistant_message"] == "Long."
        with pytest.raises(Refused) as caught:
            await server.say("x" * (2**24 + 1))
        assert (caught.value.number, caught.value.code) == (-32602, "invalid_params")
        opened = await server.call("conversation/open")
        assert (await server.say("Hi", opened["conversation_id"]))["last_assistant_message"] == "Hello."


async def test_odd_characters_travel_both_ways_unharmed(tmp_path: Path) -> None:
    """E11: one line stays one line."""
    odd = ["a\0b", "\u2028 \u0085 \x1b[31m", "\U0001f600" * 100, '}{"\\\r\n\t']
    async with serving(tmp_path, odd) as server:
        for text in odd:
            assert (await server.say(text))["last_assistant_message"] == text
        history = await server.call("conversation/history", conversation_id="root")
        assert [entry["text"] for entry in history["entries"]] == [text for text in odd for _ in range(2)]


# ---- goodbye


async def quiet_end(server: Server) -> None:
    assert server.process.stdin
    server.process.stdin.close()
    async with asyncio.timeout(DEADLINE_S):
        _, logs = await server.process.communicate()
    assert server.process.returncode == 0
    assert b"Traceback" not in logs


async def test_the_end_of_standard_input_is_the_end_of_the_server_once_it_has_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hello."]) as server:
        running = await server.ask("conversation/message", conversation_id="root", text="Hi")
        assert await server.end() == 0
        assert (await server.answer(running))["last_assistant_message"] == "Hello."


async def test_a_task_that_never_ends_does_not_keep_the_server_when_its_input_has_ended(tmp_path: Path) -> None:
    """H7: it has the close timeout, and its message is answered all the same."""
    never = {"text": "never", "delay_ms": NEVER_MS}
    async with serving(tmp_path, [never], "-c", "close_timeout_s=0.1") as server:
        running = await server.ask("conversation/message", conversation_id="root", text="Hi")
        assert await server.end() == 0
        assert (await server.answer(running))["status"] == "interrupted"


async def test_a_client_that_is_gone_takes_its_running_task_with_it(tmp_path: Path) -> None:
    """D12."""
    async with serving(tmp_path, [{"text": "never", "delay_ms": NEVER_MS}]) as server:
        await server.ask("conversation/message", conversation_id="root", text="Go")
        await server.event("task_started")
        # Both pipes at once, as when the client is killed.
        server.process.close_output()
        await quiet_end(server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_and_running_messages_are_still_answered(tmp_path: Path, number: int) -> None:
    """One terminal event a task: shutdown answers interrupted."""
    async with serving(tmp_path, [{"text": "never", "delay_ms": NEVER_MS}]) as server:
        running = await server.ask("conversation/message", conversation_id="root", text="Go")
        await server.event("task_started")
        server.process.send_signal(number)
        answer = await server.answer(running)
        assert answer["status"] == "interrupted"
        assert (await server.event("turn_aborted"))["data"]["reason"] == "shutdown"
        await quiet_end(server)


async def test_a_client_that_stops_in_the_middle_of_a_line_leaves_no_traceback(tmp_path: Path) -> None:
    """D12."""
    async with serving(tmp_path, []) as server:
        assert server.process.stdin
        server.process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/in"}).encode()[:-5])
        await quiet_end(server)
