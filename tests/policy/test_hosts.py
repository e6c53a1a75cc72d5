"""Hosts in one spelling, patterns of them, and the lists that a network right has."""

from __future__ import annotations

from ipaddress import ip_address

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.policy.host_rules import (
    MAX_PATTERNS,
    HostRules,
    NetworkOrder,
    network_from_wire,
    network_text,
    network_to_wire,
)
from tertulia.policy.hosts import is_public, parse_host, parse_pattern
from tests.policy.strategies import networks
from tests.tables import each_row
from tests.thorough import examples

proof = settings(max_examples=examples(300))
met = NetworkOrder().meet


@each_row(
    "written, name",
    [
        ("GitHub.COM", "github.com"),
        ("github.com.", "github.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.example", "a_b.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("[::FFFF:7F00:1]", "127.0.0.1"),
    ],
)
def test_a_host_has_one_spelling(written, name) -> None:
    assert parse_host(written).name == name


@each_row(
    "written",
    [
        *(
            "",
            ".",
            "a..b",
            "a b",
            "-a.example",
            "a-.example",
            "a@b",
            "a/b",
            "a\0b",
            "a\nb",
            "a%2eb",
            "*.a",
            "a..",
            "x:",
        ),
        *("0x7f.1", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "256.1.1.1"),
        *("fe80::1%eth0", "[::1", "[127.0.0.1]", "::g", "bücher.example", "ｅxample.com", "a" * 64, "a." * 130 + "a"),
    ],
)
def test_what_could_be_read_in_two_ways_is_no_host(written) -> None:
    with pytest.raises(InvalidParamsError, match="is no"):
        parse_host(written)


def test_a_name_that_is_not_in_ascii_is_to_be_written_in_punycode() -> None:
    with pytest.raises(InvalidParamsError, match="punycode"):
        parse_host("bücher.example")


@each_row(
    "address, public",
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("198.18.0.1", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::808:808", False),
        ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", False),
        # Of clouds, for their own machines; and what some versions of Python take for the internet.
        ("168.63.129.16", False),
        ("::ffff:168.63.129.16", False),
        ("64:ff9b::a83f:8110", False),
        ("192.0.0.192", False),
        ("fec0::1", False),
        ("3fff::1", False),
    ],
)
def test_an_address_is_public_or_not_however_it_is_wrapped(address, public) -> None:
    assert is_public(ip_address(address)) is public


@each_row(
    "written, reason",
    [
        ("https://github.com/", "write the host alone"),
        ("*.10.0.0.1", "written as a network"),
        ("10.0.0.1/8", "no network"),
        ("a.example:0", "1 to 65535"),
        ("a.example:70000", "1 to 65535"),
        ("a.example:x", "is no"),
        ("*a.example", "is no name"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(written, reason) -> None:
    with pytest.raises(InvalidParamsError, match=reason):
        HostRules((written,))


@each_row(
    "rules, host, port, verdict",
    [
        (HostRules(("github.com",)), "github.com", 443, "allowed"),
        (HostRules(("github.com",)), "github.com", 80, "allowed"),
        (HostRules(("github.com",)), "github.com", 22, "unlisted"),
        (HostRules(("github.com:22",)), "github.com", 22, "allowed"),
        (HostRules(("github.com:22",)), "github.com", 443, "unlisted"),
        (HostRules(("github.com:*",)), "github.com", 22, "allowed"),
        (HostRules(("github.com",)), "api.github.com", 443, "unlisted"),
        (HostRules(("github.com",)), "notgithub.com", 443, "unlisted"),
        (HostRules(("*.github.com",)), "api.github.com", 443, "allowed"),
        (HostRules(("*.github.com",)), "github.com", 443, "unlisted"),
        (HostRules(("*.github.com",)), "notgithub.com", 443, "unlisted"),
        (HostRules(("*",)), "a.example", 443, "allowed"),
        (HostRules(("*",)), "8.8.8.8", 443, "unlisted"),
        (HostRules(("10.0.0.0/8",)), "10.2.3.4", 443, "allowed"),
        (HostRules(("::1",)), "[::1]", 443, "allowed"),
        (HostRules(("10.0.0.0/8",)), "::1", 443, "unlisted"),
        (HostRules(deny=("b.example",)), "a.example", 443, "allowed"),
        (HostRules(deny=("b.example",)), "b.example", 443, "denied"),
        (HostRules(deny=("b.example",)), "b.example", 22, "denied"),
        (HostRules(("b.example",), ("b.example:80",)), "b.example", 443, "allowed"),
        (HostRules(("b.example",), ("b.example:80",)), "b.example", 80, "denied"),
    ],
)
def test_a_list_says_of_each_host_whether_it_is_allowed(rules, host, port, verdict) -> None:
    assert rules.verdict(parse_host(host), port) == verdict


HOSTS = ["a.example", "b.a.example", "c.b.a.example", "example", "other", "10.1.2.3", "10.2.0.1", "::1"]


@proof
@given(networks, networks, st.sampled_from(HOSTS), st.sampled_from([80, 443, 8443, 22]))
def test_a_host_passes_the_meet_exactly_when_it_passes_both(a, b, host, port) -> None:
    def passes(right) -> bool:
        return right if isinstance(right, bool) else right.verdict(parse_host(host), port) == "allowed"

    assert passes(met(a, b)) == (passes(a) and passes(b))


def test_no_network_is_below_every_list_and_every_list_below_all_of_it() -> None:
    nothing, everything = HostRules(()), HostRules(("*:*",))
    assert met(False, nothing) is False
    assert met(nothing, False) is False
    assert met(True, everything) is everything
    assert met(everything, True) is everything
    assert met(HostRules(("a.example",)), HostRules(("b.example",))) == nothing


def test_lists_that_allow_the_same_are_equal_and_spelled_alike() -> None:
    a = HostRules(
        ("*.Example", "a.example", "a.example:443", "10.0.0.0/8", "10.1.0.0/16"), ("X.example.:*", "x.example")
    )
    assert a == HostRules(("10.0.0.0/8", "*.example"), ("x.example",))
    assert (a.allow, a.deny) == (("*.example", "10.0.0.0/8"), ("x.example",))
    assert HostRules(("[::1]:8080", "::/8", "[10.0.0.0/8]:81")).allow == ("10.0.0.0/8:81", "::/8", "[::1]:8080")


@proof
@given(networks)
def test_what_is_written_is_read_back(right) -> None:
    assert network_from_wire(network_to_wire(right)) == right
    assert msgspec.convert(msgspec.to_builtins(right), bool | HostRules) == right


@each_row(
    "written, reason",
    [
        ("yes", "must be true, false or {allow"),
        (None, "must be true, false"),
        (1, "must be true, false"),
        ({}, "needs allow, deny or both"),
        ({"alow": []}, "did you mean"),
        ({"allow": "github.com"}, "must be a list of hosts"),
        ({"allow": [1]}, "must be a list of hosts"),
        ({"deny": ["a b"]}, "network.deny: 'a b' is no name of a host"),
        ({"allow": ["a.example"] * (MAX_PATTERNS + 1)}, "more than 200"),
    ],
)
def test_a_right_that_is_none_is_refused_with_what_it_may_be(written, reason) -> None:
    with pytest.raises(InvalidParamsError, match=reason):
        network_from_wire(written)


def test_a_right_is_told_in_a_few_words() -> None:
    assert [network_text(right) for right in (True, False)] == ["on", "off"]
    assert network_text(HostRules(("a.example",), ("b.example",))) == "only a.example, not b.example"
    assert network_text(HostRules(())) == "only hosts that are asked about"


@proof
@given(networks, networks)
def test_both_of_two_lists_are_below_their_join(a, b) -> None:
    if not isinstance(a, bool) and not isinstance(b, bool):
        assert met(a, a.join(b)) == a
        assert met(b, a.join(b)) == b


def test_lists_are_met_joined_written_and_read_back() -> None:
    a, b = (
        HostRules(("*.example", "::/8"), ("x.example",)),
        HostRules(("a.example:8443", "a.example", "::1"), ("y.org",)),
    )
    assert met(a, b) == HostRules(("a.example", "::1"), ("x.example", "y.org"))
    assert met(a, HostRules(("*.example", "::/8"), ("x.example",))) is a
    assert met(HostRules(("b.example:*",)), HostRules(("b.example",))).allow == ("b.example",)
    assert a.join(b) == HostRules(("*.example", "::/8", "a.example:8443"))
    assert network_from_wire(a) is a
    assert network_from_wire(network_to_wire(a)) == a
    assert network_to_wire(HostRules(("[::1]:80",))) == {"allow": ["[::1]:80"]}
    assert network_to_wire(True) is True


def test_patterns_of_names_and_of_addresses_have_nothing_in_common() -> None:
    assert parse_pattern("*").meet(parse_pattern("10.0.0.0/8")) is None
    assert parse_pattern("10.0.0.0/8").meet(parse_pattern("::/0")) is None
    assert parse_pattern("a.example:80").meet(parse_pattern("a.example:8080")) is None
