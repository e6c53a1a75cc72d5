"""The settings for how long sessions are stored, and the result of a sweep. `home_sweep` carries it out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.rollout.store import TtlAction


class CheckpointRetention(msgspec.Struct, frozen=True, gc=False):
    """What holds for the checkpoints of each workspace; None is no limit."""

    max_age_days: float | None = 7.0
    max_mb: float | None = 1024.0

    @property
    def max_age_s(self) -> float | None:
        """The greatest age, in seconds."""
        return None if self.max_age_days is None else self.max_age_days * 86_400

    @property
    def max_bytes(self) -> float | None:
        """The largest size, in bytes."""
        return None if self.max_mb is None else self.max_mb * 1024 * 1024


class Retention(msgspec.Struct, frozen=True, gc=False):
    """What holds for all sessions of a home; None is no limit."""

    max_age_days: float | None = None
    """Sessions whose last record is older lose their texts, or go."""
    max_total_mb: float | None = None
    """When all sessions together are larger, the oldest lose their texts, and if that is not enough they go."""
    ttl_action: TtlAction = "headers_only"
    """What becomes of a record that has expired, and of a session that is too old: its text goes, or all of it."""
    checkpoints: CheckpointRetention = CheckpointRetention()


class HomeSweepResult(msgspec.Struct, frozen=True):
    """What sweeping a home came to."""

    bodies: int = 0
    """Texts removed, their headers kept."""
    rows: int = 0
    """How many records were removed whole."""
    removed: tuple[str, ...] = ()
    """The sessions that were removed."""
    skipped: tuple[str, ...] = ()
    """Sessions in use: their owners sweep them."""
    troubles: tuple[str, ...] = ()
    """What could not be swept, and why."""


def retention_from_wire(value: object) -> Retention:
    """Parse the table `[retention]`. InvalidParams names what cannot be used."""
    if isinstance(value, Retention):
        return value
    table = cast("Mapping[str, object]", value)
    for name in table:
        if name not in Retention.__struct_fields__:
            known = ", ".join(Retention.__struct_fields__)
            raise InvalidParamsError(f"retention: there is no setting {name!r}, only {known}")
    action = table.get("ttl_action", "headers_only")
    action = action.replace("-", "_") if isinstance(action, str) else action
    if action not in get_args(TtlAction):
        raise InvalidParamsError(
            f"retention.ttl_action must be one of {', '.join(get_args(TtlAction))}, not {action!r}"
        )
    limits = _positive("max_age_days", table), _positive("max_total_mb", table)
    return Retention(*limits, cast(TtlAction, action), _checkpoints(table.get("checkpoints", {})))


def _checkpoints(value: object) -> CheckpointRetention:
    names = CheckpointRetention.__struct_fields__
    table = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {"": value})
    for name in table:
        if name not in names:
            raise InvalidParamsError(f"retention.checkpoints has {' and '.join(names)}, and no {name!r:.64}")
    return CheckpointRetention(**{name: _positive(name, table, "retention.checkpoints") for name in table})


def _positive(name: str, table: Mapping[str, object], above: str = "retention") -> float | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        with suppress(OverflowError):
            return float(value)
    raise InvalidParamsError(f"{above}.{name} must be a positive number, not {value!r}")
