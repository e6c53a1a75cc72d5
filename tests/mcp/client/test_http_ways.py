"""MCP servers over HTTP behind a real proxy, and behind a certificate that a CA of our own has signed."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import McpError
from tertulia.mcp.config.definition import Http, ServerDefinition
from tertulia.mcp.config.launch import Launch, resolve_launch, secrets_in_launch
from tertulia.protocol.network.access import OutboundNetwork, access_from_table
from tests.mcp.connected import Reach, call, serving
from tests.mcp.fakes import web
from tests.models.loopback_proxy import LoopbackProxy, tls_front
from tests.models.private_ca import make_ca, server_tls

HOST = "tools.acme.test"
BASIC = b64encode(b"ana:canary pw").decode()


def server(url: str, access: OutboundNetwork) -> tuple[ServerDefinition, Launch]:
    definition = ServerDefinition(name="tools", transport=Http(url=url))
    return definition, resolve_launch(definition, {}, access=access)


def through(proxy: str, **more: Any) -> OutboundNetwork:
    return access_from_table({"https": proxy, "http": proxy, **more})


async def test_a_server_is_reached_through_a_proxy_and_its_certificate_is_checked(reach: Reach, tmp_path: Path) -> None:
    """Issue 24 (3): HTTPS_PROXY and a custom CA hold for HTTP MCP servers too."""
    ca, secret = make_ca(tmp_path, HOST), "http://ana:canary%20pw@"
    with serving(web("json")) as port:
        async with LoopbackProxy(port, password=BASIC) as proxy:
            plain = server(f"http://{HOST}/mcp", through(f"{secret}{proxy.place}"))
            link = await reach(plain)
            assert "t0" not in (await call(link, "echo", text="hi")).text
            await link.close()
            assert proxy.heads[0].startswith(f"POST http://{HOST}/mcp HTTP/1.1\r\n")
        async with tls_front(port, server_tls(tmp_path)) as safe, LoopbackProxy(safe, password=BASIC) as proxy:
            access = through(f"{secret}{proxy.place}")
            trusted = replace(access, ca_file=str(ca))
            link = await reach(server(f"https://{HOST}/mcp", trusted))
            await call(link, "echo", text="hi")
            await link.close()
            assert proxy.heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n")
            with pytest.raises(McpError, match=r"its certificate is not trusted here; .* `ca_file`"):
                await reach(server(f"https://{HOST}/mcp", access))
    definition, launch = plain
    assert "canary" not in repr(launch)
    assert "canary pw" in secrets_in_launch(definition, launch)


async def test_this_machine_and_exceptions_are_reached_directly(reach: Reach) -> None:
    with serving(web("json")) as port:
        async with LoopbackProxy(port) as proxy:
            link = await reach(server(f"http://127.0.0.1:{port}/mcp", through(proxy.url)))
            await call(link, "echo", text="hi")
            await link.close()
            assert proxy.heads == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", r"wants a user and a password, or other ones: .* \(407\)"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", r"makes no connection to it \(502\)"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
    ],
)
async def test_a_proxy_that_refuses_is_named_without_its_password(reach: Reach, answer: bytes, problem: str) -> None:
    async with LoopbackProxy(answer=answer) as proxy:
        with pytest.raises(McpError, match=problem) as refused:
            await reach(server(f"https://{HOST}/mcp", through(f"http://ana:canary%20pw@{proxy.place}")))
        assert "canary" not in refused.value.message
        if answer.startswith(b"HTTP"):
            assert f"the proxy at {proxy.place}" in refused.value.message
    with pytest.raises(McpError, match=f"through the proxy at {proxy.place}: connection refused"):
        await reach(server(f"https://{HOST}/mcp", through(f"http://ana:canary%20pw@{proxy.place}")))
