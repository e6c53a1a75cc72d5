"""The table `[retention]`."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.rollout.sweep.retention import CheckpointRetention, Retention, retention_from_wire
from tests.tables import each_row


@each_row(
    ("table", "parsed"),
    [
        ({}, Retention()),
        ({"max_age_days": 30}, Retention(max_age_days=30.0)),
        ({"max_total_mb": 0.5, "ttl_action": "delete"}, Retention(None, 0.5, "delete")),
        ({"ttl_action": "headers-only"}, Retention()),
        (Retention(5.0), Retention(5.0)),
    ],
)
def test_what_is_not_said_is_no_limit(table: Any, parsed: Retention) -> None:
    assert retention_from_wire(table) == parsed


@each_row(
    ("table", "message"),
    [
        ({"days": 5}, "no setting 'days', only max_age_days, max_total_mb, ttl_action"),
        ({"max_age_days": 0}, r"retention\.max_age_days must be a positive number"),
        ({"max_age_days": True}, r"retention\.max_age_days"),
        ({"max_total_mb": "5"}, r"retention\.max_total_mb"),
        ({"max_total_mb": float("nan")}, r"retention\.max_total_mb"),
        ({"max_total_mb": float("inf")}, r"retention\.max_total_mb"),
        ({"max_total_mb": 10**400}, r"retention\.max_total_mb"),
        ({"ttl_action": "shred"}, r"retention\.ttl_action must be one of headers_only, delete"),
        ({"ttl_action": 5}, r"retention\.ttl_action"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParamsError, match=message):
        retention_from_wire(table)


def test_checkpoints_have_limits_of_their_own() -> None:
    """Issue 26, 1: seven days and 1 GiB a workspace, unless said otherwise."""
    assert Retention().checkpoints == CheckpointRetention(7.0, 1024.0)
    assert CheckpointRetention().max_bytes == 1 << 30
    assert CheckpointRetention(max_mb=None).max_bytes is None
    assert retention_from_wire({"checkpoints": {"max_mb": 2}}).checkpoints == CheckpointRetention(7.0, 2.0)
    for table in ({"max_days": 1}, 7):
        with pytest.raises(InvalidParamsError, match=r"retention\.checkpoints has max_age_days and max_mb"):
            retention_from_wire({"checkpoints": table})


def test_limits_of_checkpoints_are_given_in_seconds_and_bytes() -> None:
    limits = CheckpointRetention(max_age_days=2.0, max_mb=0.5)
    assert (limits.max_age_s, limits.max_bytes) == (172_800.0, 524_288.0)
    none = CheckpointRetention(max_age_days=None, max_mb=None)
    assert (none.max_age_s, none.max_bytes) == (None, None)
