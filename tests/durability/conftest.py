"""What tests of durability share."""

from __future__ import annotations

from tests.rollout.conftest import room

__all__ = ["room"]
