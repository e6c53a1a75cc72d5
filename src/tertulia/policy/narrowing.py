"""Rights as one piece of data, and the meet that can only narrow them.

What a conversation may do is the meet of its session, every ancestor in the chain, and itself. Asking for
more than is allowed is not an error: `narrow` gives what is allowed and says what was asked, given, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, force_setattr, replace

from tertulia.policy.approval_policy import APPROVAL_ORDER, ON_FAILURE, ApprovalPolicy, approval_to_wire
from tertulia.policy.display_text import value_text
from tertulia.policy.limits import LIMITS_ORDER, NO_LIMITS, Limits
from tertulia.policy.orders import ROOTS, TOOL_NAMES, Conjunction, Product, TotalOrder, normal_roots
from tertulia.policy.sandbox_mode import SANDBOX_ORDER, SandboxMode, sandbox_to_wire
from tertulia.protocol.mapping_struct import MappingStruct
from tertulia.protocol.storage import Full, StoragePolicy, storage_to_wire, strictness

Visibility = Literal["session", "subtree"]


class Rights(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a conversation may do. Fields are named as the inputs that set them, but for `shell`.

    The two sets of patterns are in normal form: rights that allow the same are equal.
    """

    approval_policy: ApprovalPolicy
    sandbox: SandboxMode
    network: bool
    """Whether commands in the sandbox reach the network."""
    writable_roots: tuple[str, ...] | None
    """Absolute directories that may be written at most; None: wherever the sandbox mode allows."""
    storage_policy: StoragePolicy
    mcp_tool_allowlist: frozenset[str] | None
    """`server__tool` or `server__*`; None: every tool of every server."""
    include_plan_tool: bool
    include_apply_patch_tool: bool
    include_conv_tools: bool
    tools_web_search_request: bool
    shell: bool
    """Whether there is a shell. The input is `shell_mode`: "none" is False, every other mode is True, because
    which form of shell a conversation gets is a preference and not a right."""
    visibility: Visibility
    """Which conversations can be listed, read and sent to."""
    limits: Limits

    def __post_init__(self) -> None:
        if self.writable_roots is not None:
            force_setattr(self, "writable_roots", normal_roots(self.writable_roots))
        if self.mcp_tool_allowlist is not None:
            force_setattr(self, "mcp_tool_allowlist", TOOL_NAMES.normal(self.mcp_tool_allowlist))


RIGHTS_ORDER = Product(
    Rights,
    {
        "approval_policy": APPROVAL_ORDER,
        "sandbox": SANDBOX_ORDER,
        "network": Conjunction(),
        "writable_roots": ROOTS,
        "storage_policy": TotalOrder(strictness),
        "mcp_tool_allowlist": TOOL_NAMES,
        "include_plan_tool": Conjunction(),
        "include_apply_patch_tool": Conjunction(),
        "include_conv_tools": Conjunction(),
        "tools_web_search_request": Conjunction(),
        "shell": Conjunction(),
        "visibility": TotalOrder(("subtree", "session").index),
        "limits": LIMITS_ORDER,
    },
)

TOP = Rights(
    approval_policy=ON_FAILURE,
    sandbox="danger_full_access",
    network=True,
    writable_roots=None,
    storage_policy=Full(),
    mcp_tool_allowlist=None,
    include_plan_tool=True,
    include_apply_patch_tool=True,
    include_conv_tools=True,
    tools_web_search_request=True,
    shell=True,
    visibility="session",
    limits=NO_LIMITS,
)
"""Everything allowed: the neutral element of the meet."""


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
    """Whose ceiling it met: `session`, `ancestor:ID` or `chain`."""

    @property
    def sentence(self) -> str:
        """In words, for people to read."""
        requested, given = value_text(self.asked), value_text(self.given)
        return f"{self.field}: asked for {requested}; given {given}, because of the {self.because}"


def narrow(
    requested: Mapping[str, Any], default: Rights, ceiling: Rights, because: str
) -> tuple[Rights, tuple[Narrowing, ...]]:
    """What one gets who asks for these fields and takes the default for the rest, and what was cut off.

    Values are parsed ones. Only what was asked is listed; of limits, only those that differ.
    """
    wanted = replace(default, **requested) if requested else default
    given = meet(wanted, ceiling)
    if given is wanted:
        return wanted, ()
    had, got = asdict(wanted), asdict(given)
    reduced = (field for field in requested if got[field] != had[field])
    return given, tuple(_explain(field, had[field], got[field], because) for field in reduced)


def _explain(field: str, requested: Any, given: Any, because: str) -> Narrowing:
    requested, given = to_wire(field, requested), to_wire(field, given)
    if field == "limits":
        differing = [name for name in requested if requested[name] != given[name]]
        requested, given = ({name: side[name] for name in differing} for side in (requested, given))
    return Narrowing("shell_mode" if field == "shell" else field, requested, given, because)


def to_wire(field: str, value: Any) -> Any:
    """A right's value as clients and configuration files spell it."""
    spell = _SPELLINGS.get(field)
    return value if spell is None or value is None else spell(value)


def _shell_to_wire(allowed: bool) -> str:
    return "default" if allowed else "none"


_SPELLINGS: Mapping[str, Callable[[Any], Any]] = {
    "approval_policy": approval_to_wire,
    "sandbox": sandbox_to_wire,
    "writable_roots": list,
    "storage_policy": storage_to_wire,
    "mcp_tool_allowlist": sorted,
    "shell": _shell_to_wire,
    "limits": asdict,
}
