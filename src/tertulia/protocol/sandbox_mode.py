"""How far commands are confined, as a right. How that is done is the business of `sandbox/`."""

from __future__ import annotations

from typing import Literal, cast, get_args

from tertulia.protocol.field_kinds import Words

SandboxMode = Literal["read_only", "workspace_write", "danger_full_access"]
SandboxName = SandboxMode | Literal["read-only", "workspace-write", "danger-full-access"]
"""A mode as people write it."""

SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)
"""All modes, the strictest one first."""

SANDBOX = Words(SANDBOX_MODES, dashed=True)


def sandbox_from_wire(value: object) -> SandboxMode:
    """Parse a mode's name; `-` and `_` are the same."""
    return cast("SandboxMode", SANDBOX.parse("sandbox", value))


def sandbox_to_wire(mode: SandboxMode) -> str:
    """The spelling that clients and configuration files use."""
    return SANDBOX.to_wire(mode)
