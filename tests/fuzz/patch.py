"""The text of a patch (C-table of HARDENING: patches)."""

from __future__ import annotations

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.patch.text import AddFile, UpdateFile, checked_path, parse_patch

SEEDS = [
    b"*** Begin Patch\n*** Add File: a/b.txt\n+hello\n+\n*** Delete File: c\n*** End Patch",
    b"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ def\n@@\n 1\n-2\n+3\n\n*** End of File\n*** End Patch\n",
    b"<<EOF\n*** Begin Patch\r\n*** Environment ID: x\r\n*** Update File: ./a//b\n@@ -1 +3 @@\n-a\n*** End Patch\nEOF",
    b"*** Begin Patch\n*** Add File: ../../etc/passwd\n+x\n*** End Patch",
    b"*** Begin Patch\n*** Delete File: ./~//b\n*** End Patch",
]
WORDS = [
    *(b"*** Begin Patch\n", b"*** End Patch", b"*** Add File: ", b"*** Delete File: ", b"*** Update File: "),
    *(b"*** Move to: ", b"*** End of File\n", b"*** Environment ID: ", b"<<EOF\n", b"\nEOF", b"@@ ", b"@@\n", b"../"),
    *(b"\xe2\x80\xa8", b"\x0c", b"\r\n", b"~/", b"@@ -1,2 +3,4 @@"),
]


def fuzz(data: bytes) -> None:
    """A patch is read whole or refused in our words, and every path of it stays below."""
    try:
        hunks = parse_patch(data.decode("utf-8", "surrogateescape"))
    except (InvalidParamsError, LimitError):
        return
    for hunk in hunks:
        _check(hunk.path, hunk.line_number)
        if isinstance(hunk, UpdateFile):
            assert hunk.chunks or hunk.move_to
            assert all(chunk.lines for chunk in hunk.chunks)
            if hunk.move_to is not None:
                _check(hunk.move_to, hunk.line_number)
        elif isinstance(hunk, AddFile):
            assert not hunk.content or hunk.content.endswith("\n")


def _check(path: str, number: int) -> None:
    assert checked_path(path, number) == path
    assert not path.startswith("/")
    assert ".." not in path.split("/")
