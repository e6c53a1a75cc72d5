"""Which instructions stand at the top of a request.

A conversation's own instructions are used exactly as they are. Without any, our built-in ones are, and only then
may a text about patches be appended. A compact turn brings its own text for that one request.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from importlib.resources import files

_KNOW_PATCHES = frozenset({"gpt-5-codex"})
"""Families trained on the patch format; every other one is told about it when it lacks the tool."""


@cache
def builtin(name: str) -> str:
    """One of the texts shipped with the package: `prompt`, `compact` or `apply_patch`."""
    return files(__package__).joinpath(f"{name}.md").read_text("utf-8")


def full_instructions(override: str | None, *, has_apply_patch: bool, family: str) -> str:
    """The instructions of a request. An override is never touched, not even an empty one."""
    if override is not None:
        return override
    if has_apply_patch or family in _KNOW_PATCHES:
        return builtin("prompt")
    return _with_patch_text()


@cache
def _with_patch_text() -> str:
    return builtin("prompt") + builtin("apply_patch")


@lru_cache(maxsize=1024)
def cache_key(instructions: str, tools_digest: str, family: str) -> str:
    """Stable over runs and machines: instructions, tool names and schemas, model family. Nothing else.

    Memoised because it is asked for at each request; a string's hash is computed once in its life.
    """
    parts = (hashlib.sha256(instructions.encode()).hexdigest(), tools_digest, family)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
