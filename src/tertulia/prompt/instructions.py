"""Which instructions stand at the top of a request.

A conversation's own instructions are used exactly as they are. Without any, our built-in ones are, and only then
may a text about patches be appended. A compact turn brings its own text for that one request.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Literal

_FAMILIES_KNOWING_PATCHES = frozenset({"gpt-5-codex"})
"""Families trained on the patch format; every other one is told about it when it lacks the tool."""


@cache
def builtin_text(name: Literal["prompt", "compact", "apply_patch"]) -> str:
    """One of the texts shipped with the package."""
    return Path(__file__).with_name(f"{name}.md").read_text("utf-8")


def full_instructions(override: str | None, *, has_apply_patch: bool, family: str) -> str:
    """The instructions of a request. An override is never touched, not even an empty one."""
    if override is not None:
        return override
    if has_apply_patch or family in _FAMILIES_KNOWING_PATCHES:
        return builtin_text("prompt")
    return _with_patch_text()


@cache
def _with_patch_text() -> str:
    return builtin_text("prompt") + builtin_text("apply_patch")


def cache_key(instructions: str, tools_digest: str, family: str) -> str:
    """Stable over runs and machines: instructions, tool names and schemas, model family. Nothing else."""
    # Not memoised: hashing the usual instructions takes microseconds, and a memo would keep the instructions of
    # closed conversations, up to 16 MB each.
    parts = (hashlib.sha256(instructions.encode()).hexdigest(), tools_digest, family)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
