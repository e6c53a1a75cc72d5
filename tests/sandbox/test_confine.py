"""From rights to confinements."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tertulia.sandbox.confine import confine
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask, ProtectedPath
from tertulia.session.settings.settings import Settings


def test_without_roots_the_workspace_is_the_one_that_may_be_written() -> None:
    confinement = confine(
        Settings().rights(),
        "/work",
        guarded=GuardedPaths(
            (Mask("/secret", "/secret", "a key"),), (ProtectedPath("/work/.bashrc", "a shell runs it"),)
        ),
    )
    assert confinement.mode == "workspace_write"
    assert confinement.writable_roots == ("/work",)
    assert confinement.masked == ("/secret",)
    assert confinement.protected_paths == ("/work/.bashrc",)
    assert not confinement.network


def test_named_roots_replace_it() -> None:
    """A8: and no directory that anybody works in is added."""
    rights = replace(Settings().rights(), writable_roots=("/a", "/b"), network=True)
    confinement = confine(rights, "/work", guarded=GuardedPaths())
    assert confinement.writable_roots == ("/a", "/b")
    assert confinement.network


@pytest.mark.parametrize("mode", ["read_only", "danger_full_access"])
def test_the_mode_is_that_of_the_rights(mode) -> None:
    assert confine(replace(Settings().rights(), sandbox=mode), "/work", guarded=GuardedPaths()).mode == mode
