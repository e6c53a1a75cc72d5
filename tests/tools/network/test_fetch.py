"""Issue 26, part 4: `fetch` reads pages under the rules of hosts, and sends nothing of ours."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import ApprovalDeniedError, InvalidParamsError, SandboxError
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.proxy import addresses
from tertulia.sandbox.proxy.gate import Access
from tertulia.sandbox.proxy.rules_gate import RulesGate
from tertulia.scheduler.nursery import Nursery
from tertulia.testing import ScriptedModel, call
from tertulia.tools.network import web_page
from tertulia.tools.network.web_page import MAX_PAGE_BYTES, fetch_page, html_text, parse_url
from tests.sandbox.proxy.proxied import HERE, Names, Upstream, certificate
from tests.tables import each_row

PAGE = b"""<html><head><title>T</title><style>p {}</style></head><body><h1>One &amp; two</h1><script>evil()</script>
<p>A  long
line<br>next</p><ul><li>first</li><li>second</li></ul></body></html>"""


def answer(body: bytes, kind: str = "text/html; charset=utf-8", status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nSet-Cookie: a=b\r\n{more}\r\n"
    return head.encode() + body


def gate_of(*allow: str, accesses: list[Access] | None = None, **names: str) -> RulesGate:
    known = Names(**names)
    tell = ([] if accesses is None else accesses).append
    return RulesGate(HostRules((*allow, f"{HERE}:*")), Nursery().start, names=known, on_access=tell)


async def test_the_text_of_a_page_comes_back_and_nothing_of_ours_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    accesses: list[Access] = []
    async with Upstream(answer(PAGE)).serve() as server:
        page = await fetch_page(
            f"http://a.example:{server.port}/x?y=z#part", gate_of("a.example:*", accesses=accesses, a_example=HERE)
        )
    assert page.text().partition("\n\n")[2] == "One & two\n\nA long line\nnext\n\n- first\n\n- second"
    sent = server.received[0].decode().lower()
    assert sent.startswith(f"get /x?y=z http/1.1\r\nhost: a.example:{server.port}\r\n")
    assert not any(word in sent for word in ("cookie", "authorization", "referer"))
    assert [(access.host, access.verdict, access.bytes > 0) for access in accesses] == [("a.example", "allowed", True)]


async def test_each_address_that_a_page_leads_to_is_checked_anew() -> None:
    async with Upstream(answer(b"", status="302 Found", more="Location: //evil.example/\r\n")).serve() as server:
        with pytest.raises(ApprovalDeniedError, match=r"evil\.example:80 is not allowed here; to allow it"):
            await fetch_page(
                f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE, evil_example=HERE)
            )
    async with Upstream(answer(b"", status="301 M", more="Location: /again\r\n")).serve() as server:
        with pytest.raises(InvalidParamsError, match="more than 5"):
            await fetch_page(f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE))
        assert len(server.received) == 6
    async with Upstream(answer(b"", status="302 F", more="Location: http://169.254.169.254/\r\n")).serve() as server:
        with pytest.raises(ApprovalDeniedError, match="169"):
            await fetch_page(f"http://a.example:{server.port}/", gate_of("*:*", a_example=HERE))


async def test_over_tls_the_server_must_be_the_one_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context()
    context.load_verify_locations(certificate()[1])
    monkeypatch.setattr(web_page, "tls_context", lambda: context)
    async with Upstream(answer(b"plain", "text/plain")).serve(tls=True) as server:
        gate = gate_of("files.example:*", "other.org:*", files_example=HERE, other_org=HERE)
        assert (await fetch_page(f"https://files.example:{server.port}/", gate)).text().endswith("\n\nplain")
        with pytest.raises(SandboxError, match="was not read: SSLCertVerificationError"):
            await fetch_page(f"https://other.org:{server.port}/", gate)
    away = answer(b"", status="302 F", more="Location: http://files.example/\r\n")
    async with Upstream(away).serve(tls=True) as server:
        with pytest.raises(InvalidParamsError, match="from https to http"):
            await fetch_page(f"https://files.example:{server.port}/", gate)


async def test_a_page_is_bounded_whatever_it_says_of_its_length() -> None:
    large = b"x" * (MAX_PAGE_BYTES + 100_000)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + f"{len(large):x}\r\n".encode() + large
    for data in (answer(large, "text/plain"), b"HTTP/1.1 200 OK\r\n\r\n" + large, chunked):
        async with Upstream(data).serve() as server:
            page = await fetch_page(f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE))
        assert (len(page.body), page.truncated) == (MAX_PAGE_BYTES, True)
    async with Upstream(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\n\r\n"
    ).serve() as server:
        page = await fetch_page(f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE))
        assert (page.body, page.truncated) == (b"abc", False)


async def test_what_is_no_text_is_not_shown_and_what_fails_says_why() -> None:
    async with Upstream(answer(b"\x89PNG", "image/png", "404 Not Found")).serve() as server:
        page = await fetch_page(f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE))
        assert "(404, image/png)\nIt is no text: 4 bytes" in page.text()
        with pytest.raises(SandboxError, match="has no address"):
            await fetch_page("http://gone.example/", gate_of("*"))
    async with Upstream(b"nonsense\r\n\r\n").serve() as server:
        with pytest.raises(SandboxError, match="none of HTTP/1"):
            await fetch_page(f"http://a.example:{server.port}/", gate_of("a.example:*", a_example=HERE))


@each_row(
    "url",
    [
        *(
            "ftp://a.example/",
            "file:///etc/passwd",
            "a.example",
            "http://",
            "http://u:p@a.example/",
            "http://a.example\\@b/",
        ),
        *("http://0x7f.1/", "http://2130706433/", "http://a.example:x/", "http://[::1/", "http://a b/", "x" * 5_000),
    ],
)
async def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    with pytest.raises(InvalidParamsError):
        parse_url(url)


def test_broken_markup_still_gives_text() -> None:
    assert html_text("<p>a<script>x</p>b</script><b>c") == "ac"
    assert html_text("<svg><p>no</svg></style>yes") == "yes"


async def test_a_model_has_it_only_where_it_was_switched_on_and_it_obeys_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "look_up", Names(a_example=HERE, b_example=HERE))
    async with Upstream(answer(PAGE)).serve() as server:
        fetches = [call("fetch", {"url": f"http://{name}.example:{server.port}/"}) for name in "ab"]
        rules = {"allow": [f"a.example:{server.port}", f"{HERE}:{server.port}"]}

        async def outputs(**settings: Any) -> list[tertulia.ToolOutput]:
            model = ScriptedModel([*fetches, "done"])
            fields = {"model": model, "cwd": str(tmp_path), "approval_policy": "never", **settings}
            async with tertulia.Session.start(tertulia.Settings(**fields)) as session:
                async with asyncio.timeout(100):
                    await session.root.message("go")
            return [item for item in model.requests[-1].items if isinstance(item, tertulia.ToolOutput)]

        allowed, refused = await outputs(network=rules, include_fetch_tool=True)
        assert ("One & two" in allowed.text, allowed.success, refused.success) == (True, True, False)
        assert f"b.example:{server.port} is not allowed here; to allow it, add" in refused.text
        assert "no network" in (await outputs(include_fetch_tool=True))[0].text
        assert "One & two" not in (await outputs(network=rules))[0].text
        # With all of the network, too, only addresses of the internet and the ports of the web.
        assert not any(output.success for output in await outputs(network=True, include_fetch_tool=True))
    assert len(server.received) == 1
