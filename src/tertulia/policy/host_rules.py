"""The right to a network: none, all of it, or hosts by name. Hosts are looked at only where a list is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec.structs import force_setattr

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint

if TYPE_CHECKING:
    from tertulia.policy.hosts import HostName, HostPattern

HostVerdict = Literal["allowed", "denied", "unlisted"]
MAX_PATTERNS = 200
"""Of a list that is written; a meet may have more."""


class HostRules(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Hosts that may be reached, each at its ports, and hosts that may not. Both lists are in normal form."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "allow", _normal(_parsed(self.allow), denies=False))
        force_setattr(self, "deny", _normal(_parsed(self.deny, denies=True), denies=True))

    def meet(self, other: HostRules) -> HostRules:
        """Hosts that both allow, and neither denies."""
        return self if self == other else _meet(self, other)

    def verdict(self, host: HostName, port: int) -> HostVerdict:
        """What the lists say of a host as it was named."""
        if any(pattern.has_host(host) and pattern.has_port(port) for pattern in _parsed(self.deny, denies=True)):
            return "denied"
        allowed = any(pattern.has_host(host) and pattern.has_port(port) for pattern in _parsed(self.allow))
        return "allowed" if allowed else "unlisted"

    def join(self, other: HostRules) -> HostRules:
        """Hosts that one of both allows; what both deny in the same words stays denied."""
        return HostRules((*self.allow, *other.allow), tuple(host for host in self.deny if host in other.deny))


@lru_cache(maxsize=1024)
def _meet(a: HostRules, b: HostRules) -> HostRules:
    # Asked for at every call of a tool.
    both = {met for x in _parsed(a.allow) for y in _parsed(b.allow) if (met := x.meet(y)) is not None}
    met = HostRules(_normal(both, denies=False), (*a.deny, *b.deny))
    return next((side for side in (a, b) if side == met), met)


NetworkRight = bool | HostRules
"""False: no network. True: all of it."""


class NetworkOrder:
    """No network < hosts by name < all of it; of two lists, what both allow."""

    __slots__ = ()

    def meet(self, a: NetworkRight, b: NetworkRight) -> NetworkRight:
        """The most that neither side forbids."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return a.meet(b)


def network_from_wire(value: object) -> NetworkRight:
    """True, false, or a table with `allow`, `deny` or both."""
    if isinstance(value, bool | HostRules):
        return value
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"network must be true, false or {{allow = […], deny = […]}}, not {value!r:.80}")
    table = cast("Mapping[Any, Any]", value)
    for key in table:
        if key not in ("allow", "deny"):
            raise InvalidParamsError(f"network has no {key!r:.80}; {name_hint(str(key), ('allow', 'deny'))}")
    if not table:
        raise InvalidParamsError("network needs allow, deny or both; {allow = []} has every host asked about")
    return HostRules(**{key: _texts(key, entry) for key, entry in table.items()})


def network_to_wire(value: NetworkRight) -> bool | dict[str, list[str]]:
    """As clients and configuration files spell it."""
    if isinstance(value, bool):
        return value
    return {"allow": list(value.allow), **({"deny": list(value.deny)} if value.deny else {})}


def network_text(value: NetworkRight) -> str:
    """In a few words, for people; one text for one value, because grants are bound to it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    denied = f", not {', '.join(value.deny)}" if value.deny else ""
    return f"only {', '.join(value.allow) or 'hosts that are asked about'}{denied}"


def _texts(key: str, entry: object) -> tuple[str, ...]:
    patterns = cast("list[Any]", entry) if isinstance(entry, list | tuple) else None
    if patterns is None or not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidParamsError(f"network.{key} must be a list of hosts, such as github.com or *.example.org")
    if len(patterns) > MAX_PATTERNS:
        raise InvalidParamsError(f"network.{key} has more than {MAX_PATTERNS:,} hosts")
    try:
        _parsed(patterns, denies=key == "deny")
    except InvalidParamsError as error:
        raise InvalidParamsError(f"network.{key}: {error.message}") from None
    return tuple(patterns)


def _parsed(patterns: Iterable[str], *, denies: bool = False) -> list[HostPattern]:
    # Here and not above: most sessions have no list.
    from tertulia.policy.hosts import parse_pattern

    return [parse_pattern(pattern, denies=denies) for pattern in patterns]


def _normal(patterns: Iterable[HostPattern], *, denies: bool) -> tuple[str, ...]:
    """As text, in order, without those that another one covers."""
    from tertulia.policy.hosts import usual_port

    unique = set(patterns)
    most = [x for x in unique if not any(y != x and y.covers(x) for y in unique)]
    return tuple(sorted(pattern.text(usual_port(denies=denies)) for pattern in most))
