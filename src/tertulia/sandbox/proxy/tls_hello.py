"""Reads which server a TLS client asks for, from the first message that it sends. Nothing is decrypted or changed."""

from __future__ import annotations

from typing import Final, NamedTuple

TLS_HANDSHAKE: Final = 0x16
MAX_HELLO = 64 * 1024
UNRECOGNISED_NAME: Final = bytes((0x15, 3, 3, 0, 2, 2, 112))
"""The alert that ends a connection whose server name is not accepted."""
_CLIENT_HELLO = 1
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that has the client say its hello again (RFC 8446, 4.1.3)."""
_RANDOM_AT, _RANDOM_END = 11, 43
_HEADER = 5
_BEFORE_A_SECOND_HELLO = (0x14, 0x15, 0x17)
"""Records that may come between both: change of cipher, alert, early data."""
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class ClientHello(NamedTuple):
    """What of it counts here."""

    server_name: str | None
    encrypted: bool
    """Whether it may hide another server name in an encrypted hello (ECH)."""
    end: int = 0
    """Where its last record ends: what follows is no part of it."""


class _Bytes:
    """Reads lengths and pieces; ValueError at the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise ValueError("it is cut short")
        self._at += count
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """What follows its length, which has so many bytes."""
        return self.take(self.number(size))


def read_client_hello(data: bytes) -> ClientHello | None:
    """The hello at the beginning of a connection; None where more of it must be read; ValueError for anything else."""
    message = bytearray()
    at = 0
    while len(data) - at >= 5:
        kind, major = data[at], data[at + 1]
        length = int.from_bytes(data[at + 3 : at + 5], "big")
        if kind != TLS_HANDSHAKE or major != 3 or not 0 < length <= 16_384:
            raise ValueError("it is no TLS handshake")
        record = data[at + 5 : at + 5 + length]
        message += record
        if message and message[0] != _CLIENT_HELLO:
            raise ValueError("it begins with another message")
        if len(record) < length:
            # Also where the hello itself is there: another message may come in the rest of its record.
            return None
        at += 5 + length
        if len(message) >= 4 and len(message) >= (end := 4 + int.from_bytes(message[1:4], "big")):
            if len(message) > end:
                raise ValueError("another message begins in its last record")
            return _read(bytes(message[4:]), at)
    return None


def asks_again(data: bytes) -> bool | None:
    """Whether the server's first message has the client say its hello again; None where more of it must be read."""
    if len(data) < _HEADER:
        return None
    if data[0] != TLS_HANDSHAKE:
        return False
    if len(data) < min(_RANDOM_END, _HEADER + int.from_bytes(data[3:5], "big")):
        return None
    return data[_RANDOM_AT:_RANDOM_END] == _RETRY


def second_hello_at(data: bytes) -> int | None:
    """Where the client's next hello begins in what it sends after its first; None where more of it must be read."""
    at = 0
    while len(data) - at >= _HEADER:
        if data[at] not in _BEFORE_A_SECOND_HELLO:
            return at
        at += _HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
    return None


def _read(body: bytes, end: int) -> ClientHello:
    hello = _Bytes(body)
    # Version and random, session id, cipher suites, compression methods.
    hello.take(34)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    extensions: dict[int, bytes] = {}
    listed = _Bytes(b"" if hello.is_over else hello.vector(2))
    while not listed.is_over:
        number = listed.number(2)
        if number in extensions:
            raise ValueError("an extension is there twice")
        extensions[number] = listed.vector(2)
    if not hello.is_over:
        raise ValueError("there is more in it")
    name = _server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else None
    return ClientHello(name, _ENCRYPTED_HELLO in extensions, end)


def _server_name(extension: bytes) -> str:
    whole = _Bytes(extension)
    names = _Bytes(whole.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind != 0 or not (names.is_over and whole.is_over):
        raise ValueError("it names more than one server")
    return name.decode("ascii")


def name_problem(hello: ClientHello, host: str, *, is_address: bool) -> str | None:
    """Why a hello does not belong to a connection to this host; None: it does."""
    if hello.encrypted:
        return "its server name may be hidden (ECH)"
    if is_address:
        return None if hello.server_name is None else "it names a server, and the connection is to an address"
    if hello.server_name is None:
        return "it names no server (SNI)"
    if hello.server_name.lower().removesuffix(".") != host:
        return f"its server name is another, {hello.server_name!r:.80}"
    return None
