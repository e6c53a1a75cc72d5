"""Heads of HTTP/1 messages, read strictly: what two programs could read in two ways is refused."""

from __future__ import annotations

import re
from typing import NamedTuple

from tertulia.errors import InvalidParamsError
from tertulia.policy.hosts import HostName, parse_host

MAX_HEAD = 64 * 1024
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: .*)?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_ABSOLUTE = re.compile(r"(?i:http)://([^/?#]*)([/?][^#]*)?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\]+)(?::([0-9]{1,5}))?")
_HOP_BY_HOP = {
    *(b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"proxy-authenticate"),
    *(b"te", b"trailer", b"upgrade"),
}
_KEPT = {b"host", b"content-length", b"transfer-encoding"}

Field = tuple[bytes, bytes]


class BadMessageError(Exception):
    """A message that is not passed on; its text is one sentence for the client."""


class Request(NamedTuple):
    """The head of a request."""

    method: bytes
    target: str
    fields: list[Field]
    """In order; names in lower case."""
    is_old: bool
    """Whether it is of HTTP/1.0, which has no chunks."""

    def values(self, name: bytes) -> list[bytes]:
        """Of all fields of a name."""
        return [value for field, value in self.fields if field == name]

    def body(self) -> int | None:
        """How many bytes follow; None: chunks do."""
        return _body(self.fields, chunks=not self.is_old)


class Target(NamedTuple):
    """The host that a request is for, with its port."""

    host: HostName
    port: int


def read_request(head: bytes) -> Request:
    """A request's head with the empty line at its end; BadMessage."""
    first, *lines = _lines(head)
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise BadMessageError("the first line is no request of HTTP/1")
    return Request(found[1], found[2].decode("ascii"), _fields(lines), found[3] == b"0")


def _lines(head: bytes) -> list[bytes]:
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise BadMessageError("a line has no proper end")
    return lines


def _fields(lines: list[bytes]) -> list[Field]:
    fields: list[Field] = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadMessageError("a field of the head is malformed")
        fields.append((found[1].lower(), found[2].rstrip(b" \t")))
    return fields


def read_authority(text: str, usual_port: int | None) -> Target:
    """`host` or `host:port`; BadMessage where there is more, such as a user's name."""
    found = _AUTHORITY.fullmatch(text)
    port = None if found is None else int(found[2]) if found[2] else usual_port
    if found is None or port is None or not 1 <= port <= 65535:
        raise BadMessageError(f"{text!r:.80} is no host with a port")
    try:
        return Target(parse_host(found[1]), port)
    except InvalidParamsError as error:
        raise BadMessageError(error.message) from None


def read_target(request: Request, tunnel: Target | None) -> tuple[Target, str]:
    """The host of a request and its path; BadMessage where its `Host` is another.

    `tunnel`: the host of the connection that it comes through, which it must be for.
    """
    if tunnel is None:
        found = _ABSOLUTE.fullmatch(request.target)
        if found is None:
            raise BadMessageError("this proxy takes http:// addresses and CONNECT")
        target, path = read_authority(found[1], 80), found[2] or "/"
        path = path if path.startswith("/") else f"/{path}"
    elif request.target.startswith("/"):
        target, path = tunnel, request.target
    else:
        raise BadMessageError("a request in a tunnel begins with a path")
    hosts = request.values(b"host")
    if len(hosts) > 1 or (not hosts and (tunnel is not None or not request.is_old)):
        raise BadMessageError("a request needs one Host")
    if hosts and read_authority(hosts[0].decode("latin-1"), 80) != target:
        raise BadMessageError("Host and the address that is asked for differ")
    return target, path


def forwarded(request: Request, target: Target, path: str) -> bytes:
    """The head as it is sent on: to this host alone, and the only one on its connection."""
    name = f"[{target.host.name}]" if ":" in target.host.name else target.host.name
    host = name if target.port == 80 else f"{name}:{target.port}"
    named = {word.strip().lower() for value in request.values(b"connection") for word in value.split(b",")}
    dropped = (named - _KEPT) | _HOP_BY_HOP | {b"host"}
    fields = [(b"host", host.encode()), *(field for field in request.fields if field[0] not in dropped)]
    line = b"%s %s HTTP/1.1" % (request.method, path.encode("ascii"))
    return _written(line, [*fields, (b"connection", b"close")])


def _written(line: bytes, fields: list[Field]) -> bytes:
    return b"\r\n".join([line, *(b"%s: %s" % field for field in fields), b"", b""])


class Response(NamedTuple):
    """The head of a response."""

    line: bytes
    status: int
    fields: list[Field]

    def forwarded(self) -> bytes:
        """As it is sent on: the connection ends with it."""
        fields = [field for field in self.fields if field[0] not in _HOP_BY_HOP]
        return _written(self.line, fields if self.status < 200 else [*fields, (b"connection", b"close")])

    def body(self, method: bytes) -> int | None:
        """How many bytes follow; None: all until the end."""
        if method == b"HEAD" or self.status in (204, 304):
            return 0
        length = dict(self.fields).get(b"content-length")
        framed = any(name == b"transfer-encoding" for name, _ in self.fields)
        return None if framed or length is None else _body(self.fields, chunks=False)


def read_response(head: bytes) -> Response:
    """A response's head with the empty line at its end; BadMessage."""
    first, *lines = _lines(head)
    found = _STATUS.fullmatch(first)
    if found is None:
        raise BadMessageError("the answer is none of HTTP/1")
    return Response(first, int(found[1]), _fields(lines))


def _body(fields: list[Field], *, chunks: bool) -> int | None:
    lengths = [value for name, value in fields if name == b"content-length"]
    encodings = [value for name, value in fields if name == b"transfer-encoding"]
    if encodings:
        if not chunks or lengths or [value.lower() for value in encodings] != [b"chunked"]:
            raise BadMessageError("it is not clear how long its body is")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 15:
        raise BadMessageError("it is not clear how long its body is")
    return int(lengths[0])


def refusal(status: str, sentence: str) -> bytes:
    """A whole answer of the proxy itself."""
    text = f"{sentence}\n".encode()
    fields = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"connection", b"close"),
    ]
    return _written(f"HTTP/1.1 {status}".encode(), fields) + text
