"""How far commands are confined, as a right. How that is done is the business of `sandbox/`."""

from __future__ import annotations

from typing import Literal, get_args

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import TotalOrder

SandboxMode = Literal["read_only", "workspace_write", "danger_full_access"]
SandboxName = SandboxMode | Literal["read-only", "workspace-write", "danger-full-access"]
"""A mode as people write it."""

SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)
"""All modes, the strictest one first."""

SANDBOX_ORDER = TotalOrder(SANDBOX_MODES.index)

_BY_NAME: dict[str, SandboxMode] = {mode.replace("_", "-"): mode for mode in SANDBOX_MODES}


def sandbox_from_wire(value: object) -> SandboxMode:
    """Parse a mode's name; `-` and `_` are the same."""
    mode = _BY_NAME.get(value.replace("_", "-")) if isinstance(value, str) else None
    if mode is None:
        raise InvalidParamsError(f"sandbox must be one of {', '.join(_BY_NAME)}, not {value!r}")
    return mode


def sandbox_to_wire(mode: SandboxMode) -> str:
    """The spelling that clients and configuration files use."""
    return mode.replace("_", "-")
