"""The server name of a TLS client, read from its first message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.sandbox.proxy.tls_hello import ClientHello, name_problem, read_client_hello
from tests.sandbox.proxy.proxied import client_hello
from tests.tables import each_row
from tests.thorough import examples

REAL = client_hello("files.example")
proof = settings(max_examples=examples(200))


def in_records(hello: bytes, size: int) -> bytes:
    """The same message in records of so many bytes."""
    message = hello[5:]
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def with_extension(hello: bytes, number: int, content: bytes = b"") -> bytes:
    """A hello with one extension more, at its end."""
    body = bytearray(hello[9:])
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    extension = number.to_bytes(2, "big") + len(content).to_bytes(2, "big") + content
    body[at : at + 2] = (int.from_bytes(body[at : at + 2], "big") + len(extension)).to_bytes(2, "big")
    body += extension
    message = b"\x01" + len(body).to_bytes(3, "big") + bytes(body)
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


def test_the_hello_of_a_real_client_names_its_server() -> None:
    assert read_client_hello(REAL) == ClientHello("files.example", encrypted=False, end=len(REAL))
    nameless = client_hello(None)
    assert read_client_hello(nameless) == ClientHello(None, encrypted=False, end=len(nameless))


@pytest.mark.parametrize("size", [1, 2, 5, 37, 511])
def test_it_is_read_from_as_many_records_as_it_comes_in(size: int) -> None:
    records = in_records(REAL, size)
    assert read_client_hello(records) == ClientHello("files.example", encrypted=False, end=len(records))


@proof
@given(st.integers(0, len(REAL) - 1))
def test_of_any_part_of_it_more_is_wanted(cut: int) -> None:
    assert read_client_hello(REAL[:cut]) is None


def test_of_a_record_that_is_not_whole_more_is_wanted_though_the_hello_is_there() -> None:
    """Another hello may come in the rest of its record."""
    both = in_records(REAL + client_hello("evil.example")[5:], 16_384)
    assert [read_client_hello(both[:cut]) for cut in range(len(both) - 1)] == [None] * (len(both) - 1)


def test_what_follows_it_does_not_count() -> None:
    assert read_client_hello(REAL + b"anything") == ClientHello("files.example", encrypted=False, end=len(REAL))


def test_an_encrypted_hello_is_seen() -> None:
    hidden = with_extension(REAL, 0xFE0D, b"x")
    assert read_client_hello(hidden) == ClientHello("files.example", encrypted=True, end=len(hidden))


@each_row(
    "data, reason",
    [
        (b"GET / HTTP/1.1\r\n", "no TLS handshake"),
        (b"\x17" + REAL[1:], "no TLS handshake"),
        (b"\x16\x02" + REAL[2:], "no TLS handshake"),
        (b"\x16\x03\x01\x00\x00" + REAL, "no TLS handshake"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "another message"),
        (b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03", "cut short"),
        (in_records(REAL + client_hello("evil.example")[5:], 16_384), "another message begins"),
        (with_extension(REAL, 0, b"\0\4\0\0\1a"), "twice"),
        (with_extension(client_hello(None), 0, b"\0\x08\0\0\1a\0\0\1b"), "more than one"),
        (with_extension(client_hello(None), 0, b"\0\4\0\0\1\xff"), "ascii"),
    ],
)
def test_what_is_no_hello_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_client_hello(data)


@proof
@given(
    st.binary(max_size=300)
    | st.builds(
        lambda at, byte: REAL[:at] + byte + REAL[at + 1 :], st.integers(0, 400), st.binary(min_size=1, max_size=1)
    )
)
def test_nothing_but_a_refusal_comes_of_damaged_bytes(data: bytes) -> None:
    try:
        read_client_hello(data)
    except ValueError:
        return


@each_row(
    "hello, host, is_address, problem",
    [
        (ClientHello("files.example", False), "files.example", False, None),
        (ClientHello("FILES.example.", False), "files.example", False, None),
        (ClientHello("other.example", False), "files.example", False, "is another"),
        (ClientHello("files.example.evil", False), "files.example", False, "is another"),
        (ClientHello(None, False), "files.example", False, "names no server"),
        (ClientHello("files.example", True), "files.example", False, "ECH"),
        (ClientHello(None, False), "127.0.0.1", True, None),
        (ClientHello("other.example", False), "127.0.0.1", True, "to an address"),
    ],
)
def test_a_server_name_fits_the_host_that_was_asked_for_or_does_not(hello, host, is_address, problem) -> None:
    found = name_problem(hello, host, is_address=is_address)
    assert (found is None) if problem is None else (problem in found)
