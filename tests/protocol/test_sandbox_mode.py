"""Sandbox modes."""

from __future__ import annotations

from itertools import combinations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.protocol.conversation_fields import SANDBOX_MODES, sandbox_from_wire, sandbox_to_wire
from tests.tables import each_row


def test_read_only_is_stricter_than_workspace_write_and_that_than_full_access() -> None:
    """S000-18"""
    assert SANDBOX_MODES == ("read_only", "workspace_write", "danger_full_access")
    for stricter, looser in combinations(SANDBOX_MODES, 2):
        assert SANDBOX_ORDER.meet(stricter, looser) == stricter == SANDBOX_ORDER.meet(looser, stricter)


@each_row("mode", SANDBOX_MODES)
def test_a_mode_is_written_with_dashes_and_read_with_either(mode) -> None:
    assert sandbox_to_wire(mode) == mode.replace("_", "-")
    assert sandbox_from_wire(sandbox_to_wire(mode)) == mode
    assert sandbox_from_wire(mode) == mode


@each_row("value", ["", "none", "full", "Read-Only", None, 3, ["read-only"]])
def test_an_unknown_mode_is_refused_with_the_list_of_the_known(value) -> None:
    with pytest.raises(
        InvalidParamsError, match="sandbox must be one of read-only, workspace-write, danger-full-access"
    ):
        sandbox_from_wire(value)
