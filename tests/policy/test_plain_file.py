"""Reading a plain file that a user or a project names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.file_lock import try_lock
from tertulia.policy.plain_file import (
    NotPlainFileError,
    decode_text,
    read_named_file,
    read_optional_file,
    read_plain_file,
    read_whole_file,
)


def test_a_file_is_read_whole_and_a_longer_one_shows_that_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_plain_file(file, 5) == read_whole_file(file, 5) == read_named_file(str(file), 5, "it") == b"12345"
    assert read_optional_file(file, 5, "it") == b"12345"
    assert len(read_plain_file(file, 4)) == 5
    with pytest.raises(ValueError, match="too long"):
        read_whole_file(file, 4)
    with pytest.raises(InvalidParamsError, match=r"^it is larger than 4 bytes$"):
        read_named_file(str(file), 4, "it")


def test_a_pipe_is_not_waited_for_and_what_is_no_file_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(NotPlainFileError):
            read_plain_file(path, 9)
        for read in (read_named_file, read_optional_file):
            with pytest.raises(InvalidParamsError, match=r"^it is not a file$"):
                read(str(path), 9, "it")
    with pytest.raises(InvalidParamsError, match=r"^it cannot be read: No such file or directory$"):
        read_named_file(str(tmp_path / "none"), 9, "it")
    assert read_optional_file(tmp_path / "none", 9, "it") is None
    assert read_optional_file(pipe / "below", 9, "it") is None
    with pytest.raises(InvalidParamsError, match=r"^it is not a path$"):
        read_named_file("\0", 9, "it")


def test_a_lock_is_taken_once_and_not_waited_for(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock") as second:
        assert try_lock(first.fileno())
        assert not try_lock(second.fileno())


def test_what_is_no_text_is_refused_with_the_advice() -> None:
    assert decode_text("é".encode(), "it") == "é"
    with pytest.raises(InvalidParamsError, match=r"^it is not a text in UTF-8$"):
        decode_text(b"\xff", "it")
    with pytest.raises(InvalidParamsError, match=r"^it is not a text: it has a zero byte; look$"):
        decode_text(b"a\0b", "it", "; look")
