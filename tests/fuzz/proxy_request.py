"""Fuzzes what commands send to the proxy: heads of requests, targets, and the first message of TLS."""

from __future__ import annotations

from tertulia.policy.hosts import parse_host
from tertulia.sandbox.proxy.http_head import (
    BadMessageError,
    Target,
    forwarded,
    read_authority,
    read_request,
    read_response,
    read_target,
)
from tertulia.sandbox.proxy.tls_hello import name_problem, read_client_hello

_HOST = b"GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n"
_HELLO = b"\x16\x03\x01\x00\x35\x01\x00\x00\x31\x03\x03" + b"r" * 32 + b"\0\0\2\x13\1\1\0\0\6\0\0\0\2\0\0"
SEEDS = [
    b"h" + _HOST + b"\r\n",
    b"h" + _HOST + b"Content-Length: 3\r\nConnection: x\r\nX: y\r\n\r\n",
    b"h" + _HOST + b"Transfer-Encoding: chunked\r\n\r\n",
    b"hPOST http://[::1]:8080/ HTTP/1.0\r\n\r\n",
    b"cGET /x HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"rHTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n",
    b"aa.example:443",
    b"a[::ffff:127.0.0.1]:80",
    b"t" + _HELLO,
    b"t" + _HELLO[:5],
]
WORDS = [b"http://", b"Host: ", b"\r\n", b"chunked", b"Content-Length: ", b"@", b"0x7f", b"a.example", b"\x16\x03\x01"]


def fuzz(data: bytes) -> None:
    """Whatever is passed on is read in one way: for one host, with one Host, one length, and no line more."""
    kind, rest = data[:1], data[1:]
    try:
        if kind == b"t":
            hello = read_client_hello(rest)
            if hello is not None:
                name_problem(hello, "a.example", is_address=False)
        elif kind == b"a":
            target = read_authority(rest.decode("latin-1"), None)
            assert parse_host(target.host.name) == target.host
        elif kind == b"r":
            response = read_response(rest)
            response.body(b"GET")
            assert read_response(response.forwarded()).status == response.status
        else:
            _request(rest, Target(parse_host("a.example"), 80) if kind == b"c" else None)
    except (BadMessageError, ValueError):
        return


def _request(head: bytes, tunnel: Target | None) -> None:
    request = read_request(head)
    target, path = read_target(request, tunnel)
    length = request.body()
    sent = forwarded(request, target, path)
    again = read_request(sent)
    assert read_target(again, target) == (target, path), sent
    assert again.body() == length or request.is_old, sent
    assert sent.count(b"\r\n\r\n") == 1, sent
    assert len(again.values(b"host")) == 1, sent
