"""Numbers that bound what a conversation may use. None is no limit; the smaller of two holds."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import Minimum, Product
from tertulia.protocol.name_hints import name_hint


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Names and units are those of `[limits]` in config.toml: `_s` is seconds."""

    mcp_concurrency: int | None = 8
    """MCP calls of one conversation that run at once."""
    mcp_rate_per_s: float | None = None
    """MCP calls of one conversation that may start in a second."""
    mcp_wait_s: float | None = 60.0
    """How long a call waits for the two above before it is refused."""
    max_history_tokens: int | None = None
    """Older items are summarised above this; without it the model's window decides."""
    max_history_items: int | None = 10_000
    """Older items are summarised above this as well."""
    compact_at: float | None = 0.85
    """The share of the model's window above which older outputs are shortened and older turns summarised."""
    max_interrupt_chain_depth: int | None = 8
    """Conversations of one chain that wait for one another."""
    max_chain_conversations: int | None = 64
    """Conversations that one chain may create."""
    max_task_interrupts: int | None = 64
    """Handoffs that one user's task may cause, in all its chain."""
    max_conversations: int | None = 10_000
    """Open conversations of a session."""
    max_output_bytes: int | None = 65_536
    """What of a tool's output reaches the model: its head and its tail."""
    task_timeout_s: float | None = None
    """How long one task may take."""
    target_timeout_s: float | None = None
    """How long the target of a handoff may take from its start, with all that it hands off itself."""
    target_wait_s: float | None = None
    """How long the target of a handoff may wait for a free slot and for its conversation."""
    max_parallel_targets: int | None = None
    """Targets of one conversation that may be under way at once, within the session's slots."""
    max_network_connections: int | None = 64
    """Connections to hosts by name that a conversation's commands may have open at once."""
    max_network_bytes: int | None = 8 << 30
    """What they send and receive in all, through these connections."""
    network_connection_s: float | None = 3600.0
    """How long one of these connections may last."""


LIMITS_ORDER = Product(Limits, dict.fromkeys(Limits.__struct_fields__, Minimum()))

NO_LIMITS = Limits(**dict.fromkeys(Limits.__struct_fields__))

_SHARES = {"compact_at"}
_WHOLE = {field.name for field in msgspec.structs.fields(Limits) if field.type == int | None}


def limits_from_wire(values: Mapping[str, object], base: Limits) -> Limits:
    """`base` with the named limits replaced; null takes a limit away, which the meet may undo."""
    return msgspec.structs.replace(base, **{name: _limit(name, value) for name, value in values.items()})


def _limit(name: str, value: object) -> float | None:
    if name not in Limits.__struct_fields__:
        raise InvalidParamsError(f"limits has no {name!r:.80}; {name_hint(name, Limits.__struct_fields__)}")
    whole = name in _WHOLE
    match value:
        case None | "none":
            # The word, because TOML knows no null.
            return None
        case bool():
            pass
        case int() | float() if name in _SHARES and value > 1:
            pass
        case int() if value > 0 and (whole or value <= sys.float_info.max):
            return value
        # A limit that came through JSON may be a float although a whole number was written.
        case float() if value > 0 and math.isfinite(value) and (not whole or value.is_integer()):
            return int(value) if whole else value
        case _:
            pass
    kind = "positive whole number" if whole else "positive number"
    kind += ", at most 1," if name in _SHARES else ""
    raise InvalidParamsError(f"limits.{name} must be a {kind} or `none` for no limit, not {value!r}")
