"""Rights as one piece of data, and the meet that can only narrow them.

What a conversation may do is the meet of its session, every ancestor in the chain, and itself. Asking for
more than is allowed is not an error: `narrow` gives what is allowed and says what was asked, given, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import asdict, force_setattr, replace

from tertulia.policy.approval_policy import (
    APPROVAL_ORDER,
    ON_FAILURE,
    ApprovalPolicy,
    approval_from_wire,
    approval_text,
    approval_to_wire,
)
from tertulia.policy.display_text import value_text, visible
from tertulia.policy.host_rules import NetworkOrder, NetworkRight, network_from_wire, network_to_wire
from tertulia.policy.limits import LIMITS_ORDER, NO_LIMITS, Limits
from tertulia.policy.orders import ROOTS, TOOL_NAMES, Conjunction, Order, Product, TotalOrder, normal_roots
from tertulia.protocol.conversation_fields import (
    RIGHT_FIELDS,
    SWITCH_OF_TOOL,
    TOOL_SWITCHES,
    ConversationField,
    OnRestart,
    SandboxMode,
    Structured,
    Visibility,
    Words,
)
from tertulia.protocol.mapping_struct import MappingStruct
from tertulia.protocol.storage import Full, StoragePolicy, storage_from_wire, storage_to_wire, strictness

if TYPE_CHECKING:
    # mypy takes no base class that a function makes, and would then check no attribute of `Rights` at all.
    _ToolRights = msgspec.Struct
else:
    _ToolRights = msgspec.defstruct("_ToolRights", [(name, bool) for name in TOOL_SWITCHES], kw_only=True, gc=False)


class Rights(_ToolRights, frozen=True, kw_only=True, gc=False):
    """All that a conversation may do. Fields are named as the inputs that set them, but for `shell`.

    The switches of tools come from the table of conversation fields; `allows_tool` asks for them. The two sets of
    patterns are in normal form: rights that allow the same are equal.
    """

    approval_policy: ApprovalPolicy
    sandbox: SandboxMode
    network: NetworkRight
    """Which hosts commands in the sandbox reach: none, all, or those of a list."""
    allow_git: bool
    """Whether git commands of a few verbs are run for it that write the repository of a writable root."""
    writable_roots: tuple[str, ...] | None
    """Absolute directories that may be written at most; None: wherever the sandbox mode allows."""
    storage_policy: StoragePolicy
    mcp_tool_allowlist: frozenset[str] | None
    """`server__tool` or `server__*`; None: every tool of every server."""
    shell: bool
    """Whether there is a shell. The input is `shell_mode`: "none" is False, every other mode is True, because
    which form of shell a conversation gets is a preference and not a right."""
    visibility: Visibility
    """Which conversations can be listed, read and sent to."""
    limits: Limits
    on_restart: OnRestart = "close"
    """Whether tasks that a crash cut may go on. To close them is narrower: what goes on spends and acts without a new
    message. The default is for rights that were recorded before there was a choice."""

    def __post_init__(self) -> None:
        if self.writable_roots is not None:
            force_setattr(self, "writable_roots", normal_roots(self.writable_roots))
        if self.mcp_tool_allowlist is not None:
            force_setattr(self, "mcp_tool_allowlist", TOOL_NAMES.normal(self.mcp_tool_allowlist))

    def allows_tool(self, name: str) -> bool:
        """Whether the switch of this built-in tool is on; a tool that has none is always allowed."""
        switch = SWITCH_OF_TOOL.get(name)
        return switch is None or cast("bool", getattr(self, switch))


class _Parts(msgspec.Struct, frozen=True):
    """What only code can say of a structured right."""

    order: Order[Any]
    top: Any
    """The value that forbids nothing."""
    parse: Callable[[Any], Any]
    to_wire: Callable[[Any], Any]


def _parsed(value: Any) -> Any:
    return value


def _network(value: Any) -> NetworkRight:
    # Nearly always: no list of hosts.
    return value if isinstance(value, bool) else network_from_wire(value)


_STRUCTURED: Mapping[str, _Parts] = {
    "approval_policy": _Parts(APPROVAL_ORDER, ON_FAILURE, approval_from_wire, approval_to_wire),
    "network": _Parts(NetworkOrder(), True, _network, network_to_wire),
    "writable_roots": _Parts(ROOTS, None, tuple, list),
    "storage_policy": _Parts(TotalOrder(strictness), Full(), storage_from_wire, storage_to_wire),
    "mcp_tool_allowlist": _Parts(TOOL_NAMES, None, _parsed, sorted),
    "limits": _Parts(LIMITS_ORDER, NO_LIMITS, _parsed, asdict),
}
"""An allowlist is parsed by `mcp.view`, which knows the tools, and limits by those that they change."""


def _parts_of(row: ConversationField) -> _Parts:
    kind = row.kind
    if isinstance(kind, Structured):
        return _STRUCTURED[row.name]
    if not isinstance(kind, Words):
        return _Parts(Conjunction(), True, lambda value: kind.parse(row.name, value), _parsed)
    if kind.off is None:
        order = TotalOrder(kind.words.index)
        return _Parts(order, kind.words[-1], lambda value: kind.parse(row.name, value), kind.to_wire)
    others = next(word for word in kind.words if word != kind.off)
    return _Parts(
        Conjunction(),
        True,
        lambda value: kind.parse(row.name, value) != kind.off,
        lambda allowed: others if allowed else kind.off,
    )


_PARTS: Mapping[str, _Parts] = {right: _parts_of(row) for right, row in RIGHT_FIELDS.items()}

RIGHTS_ORDER = Product(Rights, {right: parts.order for right, parts in _PARTS.items()})

TOP = Rights(**{right: parts.top for right, parts in _PARTS.items()})
"""Everything allowed: the neutral element of the meet."""


def parse_right(right: str, value: object) -> Any:
    """A right from what clients and files say of its field. Allowlists and limits have to be parsed already."""
    return _PARTS[right].parse(value)


def to_wire(right: str, value: Any) -> Any:
    """A right's value as clients and configuration files spell it."""
    return None if value is None else _PARTS[right].to_wire(value)


def meet(a: Rights, b: Rights) -> Rights:
    """What both allow: `a` or `b` itself where that is the answer, so that conversations share rights."""
    return RIGHTS_ORDER.meet(a, b)


def leq(a: Rights, b: Rights) -> bool:
    """Whether `a` allows nothing that `b` does not."""
    return meet(a, b) == a


class Narrowing(MappingStruct, frozen=True):
    """One thing that was asked for and not given in full, in wire spelling."""

    field: str
    """The name of the input that was narrowed."""
    asked: Any
    given: Any
    because: str
    """Whose ceiling it met: `session`, `ancestor:ID`, `agent:NAME`, `chain`, or that of its own `storage_policy`."""

    @property
    def sentence(self) -> str:
        """In words, for people to read."""
        requested, granted = (_value_text(self.field, value) for value in (self.asked, self.given))
        return f"{self.field}: asked for {requested}; given {granted}, because of {_because_text(self.because)}"


def _value_text(field: str, value: Any) -> str:
    if field == "approval_policy" and isinstance(value, dict):
        return approval_text(approval_from_wire(cast("object", value)))
    return value_text(value)


def _because_text(because: str) -> str:
    kind, _, name = because.partition(":")
    match kind:
        case "ancestor":
            return f"the conversation {visible(name)} that opened it"
        case "agent":
            return f"the agent {visible(name)}"
        case "storage_policy":
            return "its storage policy, which keeps no texts: neither it nor a chain with it can go on after a crash"
        case "chain":
            return "the conversations that wait for it"
        case _:
            return f"the {kind}"


def narrow(
    requested: Mapping[str, Any], default: Rights, ceiling: Rights, because: str
) -> tuple[Rights, tuple[Narrowing, ...]]:
    """What one gets who asks for these fields and takes the default for the rest, and what was cut off.

    Values are parsed ones. Only what was asked is listed; of limits, only those that differ.
    """
    wanted = replace(default, **requested) if requested else default
    granted = meet(wanted, ceiling)
    if granted is wanted:
        return wanted, ()
    had, got = asdict(wanted), asdict(granted)
    reduced = (field for field in requested if got[field] != had[field])
    return granted, tuple(_explain(field, had[field], got[field], because) for field in reduced)


def _explain(field: str, requested: Any, granted: Any, because: str) -> Narrowing:
    requested, granted = to_wire(field, requested), to_wire(field, granted)
    if field == "limits":
        differing = [name for name in requested if requested[name] != granted[name]]
        requested, granted = ({name: side[name] for name in differing} for side in (requested, granted))
    return Narrowing(RIGHT_FIELDS[field].name, requested, granted, because)
