"""Hosts as commands and settings spell them, brought into one spelling, and patterns of hosts with their ports.

A name is lower case, without the dot at its end, and never looked up here. What the C library would take for an address
is an address in its usual spelling or nothing: `0x7f.1`, `2130706433` and `127.1` are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, NamedTuple

from tertulia.errors import InvalidParamsError

Address = IPv4Address | IPv6Address

WEB_PORTS: Final = (80, 443)
ANY_PORT: Final = -1
_WEB: Final = 0
"""As the port of a pattern: both of `WEB_PORTS`."""
_MAX_NAME = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.0/24"),
    IPv6Network("fec0::/10"),
    IPv6Network("3fff::/20"),
)
"""What not every Python counts as such: services of Azure and Oracle for their own machines, site-local addresses,
and those of documentation."""


class HostName(NamedTuple):
    """A host in its one spelling."""

    name: str
    address: Address | None = None
    """Where it was named by its address."""


def parse_host(text: str) -> HostName:
    """The host that a program or a person names; InvalidParams for what is none, or not in its usual spelling."""
    name = text.lower()
    if name.startswith("[") and name.endswith("]"):
        return _of_address(_ipv6(name[1:-1], text))
    if ":" in name:
        return _of_address(_ipv6(name, text))
    name = name.removesuffix(".")
    labels = name.split(".")
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        try:
            return _of_address(IPv4Address(name))
        except ValueError:
            raise InvalidParamsError(
                f"{text!r:.80} is no host: an address is written with four plain numbers"
            ) from None
    if not text.isascii() or len(name) > _MAX_NAME or not all(map(_LABEL.fullmatch, labels)):
        ascii_form = "" if text.isascii() else "; write it in punycode (xn--…)"
        raise InvalidParamsError(f"{text!r:.80} is no name of a host{ascii_form}")
    return HostName(name)


def _ipv6(inner: str, text: str) -> IPv6Address:
    try:
        if "%" in inner:
            raise ValueError
        return IPv6Address(inner)
    except ValueError:
        raise InvalidParamsError(f"{text!r:.80} is no address") from None


def _of_address(address: Address) -> HostName:
    plain = plain_address(address)
    return HostName(str(plain), plain)


def plain_address(address: Address) -> Address:
    """The address that is meant: an IPv4 address that is wrapped into one of IPv6 is taken out of it."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """Whether it belongs to the internet: neither private, loopback, link-local, metadata, shared, reserved nor a
    group, nor a way to such an address through a translator."""
    address = plain_address(address)
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        inner = address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _LOCAL_NAT64 or (inner is not None and not is_public(inner)):
            return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


class HostPattern(NamedTuple):
    """A set of hosts at a port. Of two patterns one covers the other, or no host is in both."""

    suffix: str | None
    """Names: the name itself, or what it ends with, from the dot on (empty: every name). None: addresses."""
    network: IPv4Network | IPv6Network | None
    port: int

    @property
    def is_wild(self) -> bool:
        """Whether it stands for many names."""
        return self.suffix is not None and (not self.suffix or self.suffix.startswith("."))

    def has_host(self, host: HostName) -> bool:
        """Whether this host is in it, at some port."""
        if self.network is not None:
            return host.address is not None and host.address in self.network
        if host.address is not None or self.suffix is None:
            return False
        return host.name.endswith(self.suffix) if self.is_wild else host.name == self.suffix

    def has_port(self, port: int) -> bool:
        """Whether this port is in it."""
        return self.port in (ANY_PORT, port) or (self.port == _WEB and port in WEB_PORTS)

    def covers(self, other: HostPattern) -> bool:
        """Whether each host of the other, at each of its ports, is in this one."""
        return self.covers_ports(other.port) and self.covers_hosts(other)

    def covers_ports(self, port: int) -> bool:
        """Whether all ports that a pattern stands for are in this one."""
        return port == self.port or (port != ANY_PORT and self.has_port(port)) or self.port == ANY_PORT

    def covers_hosts(self, other: HostPattern) -> bool:
        """Whether all hosts of the other are in this one."""
        if self.network is not None or other.network is not None:
            return _is_in(other.network, self.network)
        mine, its = self.suffix or "", other.suffix or ""
        return its.endswith(mine) if self.is_wild else mine == its

    def meet(self, other: HostPattern) -> HostPattern | None:
        """The hosts and ports that are in both; None where there are none."""
        for wide, narrow in ((self, other), (other, self)):
            if wide.covers_hosts(narrow):
                hosts = narrow
                break
        else:
            return None
        for wide, narrow in ((self, other), (other, self)):
            if wide.covers_ports(narrow.port):
                return hosts._replace(port=narrow.port)
        return None

    def text(self, usual_port: int) -> str:
        """As a person writes it."""
        if self.suffix is not None:
            host = f"*{self.suffix}" if self.is_wild else self.suffix
        else:
            assert self.network is not None
            single = self.network.prefixlen == self.network.max_prefixlen
            host = str(self.network.network_address) if single else str(self.network)
        if self.port == usual_port:
            return host
        host = f"[{host}]" if ":" in host else host
        return f"{host}:{'*' if self.port == ANY_PORT else self.port}"


def _is_in(inner: IPv4Network | IPv6Network | None, outer: IPv4Network | IPv6Network | None) -> bool:
    match inner, outer:
        case (IPv4Network(), IPv4Network()):
            return inner.subnet_of(outer)
        case (IPv6Network(), IPv6Network()):
            return inner.subnet_of(outer)
        case _:
            return False


@lru_cache(maxsize=4096)
def parse_pattern(text: str, *, denies: bool = False) -> HostPattern:
    """A host, `*.host`, `*`, an address or a network, with a port if need be.

    Without a port: 80 and 443 where it allows, all ports where it denies.
    """
    if "/" in text and "://" in text:
        raise InvalidParamsError(f"{text!r:.80} is an address of a page; write the host alone")
    host, port = _split_port(text, ANY_PORT if denies else _WEB)
    if host == "*" or host.startswith("*."):
        suffix = host[1:].lower().removesuffix(".")
        if suffix and parse_host(suffix[1:]).address is not None:
            raise InvalidParamsError(f"{text!r:.80}: addresses are written as a network, such as 10.0.0.0/8")
        return HostPattern(suffix, None, port)
    if "/" in host:
        try:
            return HostPattern(None, ip_network(host.removeprefix("[").removesuffix("]")), port)
        except ValueError as error:
            raise InvalidParamsError(f"{text!r:.80} is no network of addresses: {error}") from None
    named = parse_host(host)
    return (
        HostPattern(named.name, None, port)
        if named.address is None
        else HostPattern(None, ip_network(named.address), port)
    )


_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):(\*|[0-9]{1,5})")


def _split_port(text: str, usual: int) -> tuple[str, int]:
    found = _PORT.fullmatch(text)
    if found is None:
        return text, usual
    if found[2] == "*":
        return found[1], ANY_PORT
    port = int(found[2])
    if not 1 <= port <= 65535:
        raise InvalidParamsError(f"{text!r:.80}: a port is a number from 1 to 65535")
    return found[1], port


def usual_port(*, denies: bool) -> int:
    """The port of a pattern that is written without one."""
    return ANY_PORT if denies else _WEB
