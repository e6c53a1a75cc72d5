"""The token of a server: made once, read by its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.server.tokens import is_token, token_file


def test_it_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """E7, X-46: whatever the umask says."""
    path = tmp_path / "home" / "serve.token"
    before = os.umask(0)
    try:
        token = token_file(path)
    finally:
        os.umask(before)
    assert len(token) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert token_file(path) == token


def test_one_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "serve.token"
    path.write_text("a" * 64)
    path.chmod(0o644)
    assert token_file(path) == "a" * 64
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("weak", [b"", b"short", b" \n", b"\xff" * 64])
def test_one_that_could_be_guessed_is_replaced(tmp_path: Path, weak: bytes) -> None:
    path = tmp_path / "serve.token"
    path.write_bytes(weak)
    assert len(token_file(path)) == 64
    assert len(path.read_text()) == 64


def test_a_link_that_was_planted_is_not_followed(tmp_path: Path) -> None:
    """E7."""
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "serve.token").symlink_to(victim)
    with pytest.raises(StorageError):
        token_file(tmp_path / "serve.token")
    assert victim.read_text() == "keep"


@pytest.mark.parametrize("given", [b"", b"a" * 63, b"a" * 65, b"A" * 64, b"\xff" * 64, b"a" * 63 + b"\n"])
def test_only_the_very_token_is_it(given: bytes) -> None:
    """D6."""
    assert is_token(b"a" * 64, "a" * 64)
    assert not is_token(given, "a" * 64)
