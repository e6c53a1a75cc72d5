"""The way to a provider: every failure of it is said and none raised, and nothing stays open behind anybody's back."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from tertulia.models.http import connection, sse
from tertulia.models.http.connection import ProviderConnection
from tertulia.models.http.provider_error import ProviderAddress, ProviderAttemptError
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerPiece, RetryNotice, TextDelta
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import UserMessage, text_parts
from tests.mcp.virtual_time import in_virtual_time
from tests.models.apis import RESPONSES, Api, every_api
from tests.models.mock_provider import MockProvider, Reply, Told, event, in_turn, refused, streamed
from tests.models.wire_contract import DEADLINE, a_request, check_answer, read, until
from tests.tables import each_row

PLAIN = Told(text="One two three.")
PLACE = ProviderAddress("mock", "model", "127.0.0.1", None)
HTML = b"<!doctype html><html><body>Welcome to nginx! canary</body></html>"


async def asked(api: Api, answer: Reply, **settings: object) -> tuple[list[AnswerPiece], MockProvider]:
    async with MockProvider(answer) as mock:
        wire = api.wire(mock.url, **settings)
        pieces = await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
        check_answer(pieces)
        assert mock.open_streams == 0
        return pieces, mock


def failure(pieces: list[AnswerPiece]) -> str:
    assert isinstance(pieces[-1], AnswerFailure)
    assert not pieces[-1].overflow
    assert pieces[-1].code == "model_error"
    assert "canary" not in pieces[-1].message
    return pieces[-1].message


# ---- no way there


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    wire = RESPONSES.wire(f"http://127.0.0.1:{port}")
    pieces = await read(wire, a_request())
    await wire.close()
    assert failure(pieces).startswith("cannot connect to mock at 127.0.0.1:")
    assert len(pieces) == 1


async def test_nobody_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose queue is full drops what knocks."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for knocking in (first, second):
            knocking.setblocking(False)
            knocking.connect_ex(full.getsockname())
        wire = RESPONSES.wire(f"http://127.0.0.1:{full.getsockname()[1]}")
        pieces = await read(wire, a_request())
        await wire.close()
    assert "no connection in 0.05 s" in failure(pieces)


async def test_the_name_is_unknown() -> None:
    wire = RESPONSES.wire("http://no-such-host.invalid")
    pieces = await read(wire, a_request())
    await wire.close()
    assert "no-such-host.invalid" in failure(pieces)


async def test_the_other_side_speaks_no_tls() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        wire = RESPONSES.wire(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        pieces = await read(wire, a_request())
        await wire.close()
    assert failure(pieces).startswith("no trusted connection to mock at 127.0.0.1")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program to make a certificate")
async def test_a_certificate_of_nobody_known_is_not_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    makes = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*makes, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        wire = RESPONSES.wire(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        pieces = await read(wire, a_request())
        await wire.close()
    assert "its certificate is not trusted here" in failure(pieces)
    assert heard == []


async def test_one_that_hangs_up_at_once_is_asked_about_its_address() -> None:
    """As a server of https does that is spoken to in plain HTTP."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        wire = RESPONSES.wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", stream_max_retries=0)
        pieces = await read(wire, a_request())
        await wire.close()
    assert "hung up without an answer; is base_url right, http:// or https://?" in failure(pieces)


# ---- another answer than expected


@every_api
@each_row("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_is_not_followed(api: Api, status: str) -> None:
    """So that no key goes to another host."""
    async with MockProvider(api.answer(PLAIN)) as elsewhere:
        pieces, mock = await asked(api, Reply((), status, (("Location", elsewhere.url + "/canary"),)))
        assert elsewhere.connections == 0
    assert "redirect" in failure(pieces)
    assert len(mock.seen) == 1


@every_api
@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/plain; charset=utf-8"])
async def test_an_answer_that_is_no_stream(api: Api, kind: str) -> None:
    pieces, mock = await asked(api, Reply((HTML,), headers=(("Content-Type", kind),)))
    assert kind.partition(";")[0] in failure(pieces)
    assert "base_url" in failure(pieces)
    assert len(mock.seen) == 1


@every_api
async def test_a_page_that_calls_itself_a_stream(api: Api) -> None:
    pieces, mock = await asked(api, streamed(HTML))
    assert "ended before the answer" in failure(pieces)
    assert len(mock.seen) == 5


@every_api
async def test_a_stream_that_does_not_say_what_it_is(api: Api) -> None:
    pieces, _ = await asked(api, Reply(tuple(api.events(PLAIN)), headers=()))
    assert isinstance(pieces[-1], AnswerEnd)


@every_api
async def test_an_empty_stream(api: Api) -> None:
    pieces, mock = await asked(api, streamed())
    assert "(after 4 retries)" in failure(pieces)
    assert [type(piece) for piece in pieces] == [RetryNotice] * 4 + [AnswerFailure]
    assert len(mock.seen) == 5


@every_api
@pytest.mark.parametrize("data", [b"data: not JSON\n\n", b"data: {\n\n", b'data: {"choices": 5, "type": 5}\n\n'])
async def test_events_that_are_no_events(api: Api, data: bytes) -> None:
    pieces, mock = await asked(api, streamed(data))
    assert "mock sent an event" in failure(pieces)
    assert len(mock.seen) == 1


@each_row("answer", [b"220 mail.example ESMTP\r\n", b"HTTP/1.1 twohundred OK\r\n\r\n", b"\x15\x03\x01\x00\x02"])
async def test_an_answer_that_is_not_http(answer: bytes) -> None:
    pieces, _ = await asked(RESPONSES, Reply((answer,), raw=True))
    assert "not HTTP" in failure(pieces)


@every_api
async def test_a_delta_of_100_megabytes_is_given_up_early(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1 << 20)
    begun = api.begun(PLAIN, "One")
    pieces, mock = await asked(api, streamed(*begun, *[b"data: " + b"x" * (1 << 16)] + [b"x" * (1 << 16)] * 1_600))
    assert "an event of more than" in failure(pieces)
    assert len(mock.seen) == 1


async def test_an_error_page_without_end_is_not_read_to_its_end() -> None:
    page = Reply((b"x" * 100_000,) * 3 + ("stall",), "400 Bad Request", (("Content-Type", "text/html"),))
    pieces, _ = await asked(RESPONSES, page)
    assert failure(pieces) == "mock answered 400"


# ---- silence


@every_api
async def test_a_stream_that_falls_silent_counts_as_cut(api: Api) -> None:
    pieces, mock = await asked(
        api, streamed(*api.begun(PLAIN, "One"), "stall"), stream_idle_timeout_ms=150, stream_max_retries=1
    )
    assert "stream_idle_timeout_ms" in failure(pieces)
    assert [type(piece) for piece in pieces if not isinstance(piece, TextDelta)] == [RetryNotice, AnswerFailure]
    assert len(mock.seen) == 2


async def test_a_provider_that_never_answers_counts_as_cut() -> None:
    pieces, mock = await asked(RESPONSES, Reply(("stall",), raw=True), stream_idle_timeout_ms=150, stream_max_retries=1)
    assert "stream_idle_timeout_ms" in failure(pieces)
    assert len(mock.seen) == 2


@in_virtual_time
async def test_a_stream_that_says_something_now_and_then_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer in all than it may be silent; comments count."""
    events = RESPONSES.events(PLAIN)
    slow = [part for one in events for part in (one, b": still here\n\n")]

    async def pause(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.25)

    monkeypatch.setattr("tests.models.mock_provider.pause", pause)
    pieces, mock = await asked(RESPONSES, streamed(*slow), stream_idle_timeout_ms=300)
    assert isinstance(pieces[-1], AnswerEnd)
    assert len(mock.seen) == 1


# ---- connections


@every_api
async def test_one_connection_serves_one_answer_after_another(api: Api) -> None:
    async with MockProvider(api.answer(PLAIN)) as mock:
        wire = api.wire(mock.url)
        for _ in range(5):
            await read(wire, a_request(dialect=wire.dialect))
        assert mock.connections == 1
        await wire.close()


async def test_an_answer_that_goes_on_after_its_end_is_not_waited_for() -> None:
    async with MockProvider(streamed(*RESPONSES.events(PLAIN), "stall")) as mock:
        wire = RESPONSES.wire(mock.url)
        pieces = await read(wire, a_request())
        assert isinstance(pieces[-1], AnswerEnd)
        assert mock.open_streams == 0
        await wire.close()


async def test_a_whole_answer_counts_though_the_connection_breaks_behind_it() -> None:
    pieces, mock = await asked(RESPONSES, streamed(*RESPONSES.events(PLAIN), "cut"))
    assert isinstance(pieces[-1], AnswerEnd)
    assert len(mock.seen) == 1


@every_api
async def test_what_follows_the_end_does_not_count_however_it_is_cut(api: Api) -> None:
    whole = b"".join(api.events(PLAIN))
    for steps in ((whole + event("nonsense"),), (whole, event("nonsense"))):
        pieces, _ = await asked(api, streamed(*steps))
        assert isinstance(pieces[-1], AnswerEnd)


async def test_whoever_leaves_a_whole_answer_does_not_cut_the_next_on_its_connection() -> None:
    """It came in while nobody read; its connection was given back, and taken by another."""
    begun = RESPONSES.begun(PLAIN, "delta")
    rest = RESPONSES.events(PLAIN)[len(begun) :]
    replies = streamed(b"".join(begun), b"".join(rest)), streamed(*begun, "stall")
    async with MockProvider(in_turn(*replies)) as mock, asyncio.timeout(DEADLINE):
        wire = RESPONSES.wire(mock.url)
        left = wire.stream(a_request())
        assert isinstance(await anext(left), TextDelta)
        for _ in range(200):
            await asyncio.sleep(0)
        assert mock.open_streams == 0
        taking = wire.stream(a_request())
        assert isinstance(await anext(taking), TextDelta)
        assert (mock.connections, mock.open_streams) == (1, 1)
        await left.aclose()
        assert mock.open_streams == 1
        await taking.aclose()
        assert mock.open_streams == 0
        await wire.close()


async def test_an_answer_that_changes_the_protocol_is_hung_up_on() -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"
    async with MockProvider(Reply((switch, "stall"), raw=True)) as mock:
        wire = RESPONSES.wire(mock.url)
        assert failure(await read(wire, a_request())) == "mock answered 101"
        assert mock.open_streams == 0
        await wire.close()


@every_api
async def test_a_body_of_many_megabytes_arrives_whole(api: Api) -> None:
    text = "é" * 3_000_000
    async with MockProvider(api.answer(PLAIN)) as mock:
        wire = api.wire(mock.url)
        request = a_request(text, dialect=wire.dialect)
        assert isinstance((await read(wire, request))[-1], AnswerEnd)
        await wire.close()
    assert mock.seen[0].body == b"".join(wire.body_of(request))
    assert mock.seen[0].headers["content-length"] == str(len(mock.seen[0].body))
    assert mock.seen[0].headers["content-type"] == "application/json"


async def test_cancelling_in_the_middle_of_sending_hangs_up_before_it_returns() -> None:
    """The other side reads nothing, so most of the body still waits to be sent."""
    async with MockProvider(streamed()) as mock:
        mock.reads = False
        wire = RESPONSES.wire(mock.url)
        request = a_request(items=[UserMessage(new_item_id(), text_parts("x" * 15_000_000))], dialect=wire.dialect)
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            reader = group.create_task(read(wire, request))
            await until(lambda: mock.open_streams == 1)
            for _ in range(50):
                await asyncio.sleep(0)
            reader.cancel()
        assert reader.cancelled()
        assert mock.open_streams == 0
        await wire.close()


async def test_closing_the_wire_ends_its_streams_and_none_is_tried_again() -> None:
    async with MockProvider(streamed(*RESPONSES.begun(PLAIN, "One"), "stall")) as mock:
        wire = RESPONSES.wire(mock.url)
        pieces: list[AnswerPiece] = []
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(read(wire, a_request(), pieces))
            await until(lambda: len(pieces) == 1)
            await wire.close()
        assert "closed on our side" in failure(pieces)
        assert [type(piece) for piece in pieces] == [TextDelta, AnswerFailure]
        assert len(mock.seen) == 1


async def test_a_closed_wire_can_be_used_again() -> None:
    async with MockProvider(RESPONSES.answer(PLAIN)) as mock:
        wire = RESPONSES.wire(mock.url)
        for _ in range(2):
            assert isinstance((await read(wire, a_request()))[-1], AnswerEnd)
            await wire.close()
        assert mock.connections == 2


async def test_no_cookie_is_kept() -> None:
    answer = Reply(
        tuple(RESPONSES.events(PLAIN)), headers=(("Content-Type", "text/event-stream"), ("Set-Cookie", "a=b"))
    )
    async with MockProvider(answer) as mock:
        wire = RESPONSES.wire(mock.url)
        for _ in range(2):
            await read(wire, a_request())
        await wire.close()
    assert not any("cookie" in seen.headers for seen in mock.seen)


async def test_nothing_is_left_behind() -> None:
    """No timer, no socket, no task, whatever the end was."""
    async with MockProvider(streamed(*RESPONSES.begun(PLAIN, "One"), "stall")) as mock:
        wire = RESPONSES.wire(mock.url)
        async with aclosing(wire.stream(a_request())) as stream:
            await anext(stream)
        await wire.close()
    gc.collect()
    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


# ---- the connection by itself


@asynccontextmanager
async def connected(answer: Reply) -> AsyncIterator[tuple[ProviderConnection, MockProvider]]:
    async with MockProvider(answer) as mock:
        made = ProviderConnection(mock.url, PLACE, 5.0, 5.0)
        try:
            yield made, mock
        finally:
            await made.close()


async def test_events_come_as_soon_as_they_are_there() -> None:
    async with connected(streamed(event("one"), event("two") + event("three"), b"data: fo", b"ur\n\n")) as (made, _):
        async with asyncio.timeout(DEADLINE), made.post([b"{", b"}"], {}) as events:
            got = [await events.next_events() for _ in range(4)]
        assert got == [[b"one"], [b"two", b"three"], [b"four"], []]


async def test_a_listener_who_takes_long_is_not_a_provider_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockProvider(streamed(event("one"), event("two"))) as mock:
        made = ProviderConnection(mock.url, PLACE, 0.15, 0.15)
        async with asyncio.timeout(DEADLINE), made.post([b"{}"], {}) as events:
            got = await events.next_events()
            events.close()
            loop = asyncio.get_running_loop()
            much_later = loop.time() + 60
            with monkeypatch.context() as clock:
                # The timer looks up a minute later, while nobody listens.
                clock.setattr(loop, "time", lambda: much_later)
                events._look()
            got += await events.next_events()
        assert got == [b"one", b"two"]
        await made.close()


async def test_an_address_that_cannot_be_used_is_an_error() -> None:
    """A password in the address and a key in a header cannot both be sent."""
    made = ProviderConnection("http://user:canary@127.0.0.1:1", PLACE, 5.0, 5.0)
    with pytest.raises(ProviderAttemptError, match="its base_url is not usable"):
        async with made.post([b"{}"], {"Authorization": "Bearer canary"}):
            pass
    await made.close()


async def test_an_error_of_the_reader_hangs_up_too() -> None:
    async with connected(streamed(event("one"), "stall")) as (made, mock):
        with pytest.raises(ProviderAttemptError, match="enough"):
            async with asyncio.timeout(DEADLINE), made.post([b"{}"], {}) as events:
                assert await events.next_events() == [b"one"]
                assert mock.open_streams == 1
                raise ProviderAttemptError("enough")
        assert mock.open_streams == 0


async def test_a_refusal_is_read_with_its_headers() -> None:
    async with connected(refused("429 Too Many", {"error": {"message": "slow down"}}, ("Retry-After", "7"))) as (
        made,
        _,
    ):
        with pytest.raises(ProviderAttemptError, match="slow down") as caught:
            async with made.post([b"{}"], {}):
                pass
        assert caught.value.after == 7.0
