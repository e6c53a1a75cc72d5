"""What a server listed when it last ran, on the disk: so that a lazy one need not run to be known.

It is a copy, never a source: whatever is wrong with a file, it is as if there were none. Blocks, briefly.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.mcp.server import RemoteTool
from tertulia.mcp.toolset import Toolset
from tertulia.rollout.sqlite.session_files import create_private

MAX_BYTES = 2 * 1024 * 1024

_KEY = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE = 0o700
_log = logging.getLogger(__name__)


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    key: str
    digest: str
    """Of the tools: whoever edits the file by hand is not believed."""
    tools: tuple[RemoteTool, ...]


class Catalogue:
    """A folder with one file a server, under the key of its launch; only its owner can read or write it."""

    __slots__ = ("_folder",)

    def __init__(self, home: Path) -> None:
        self._folder = home / "mcp-catalogue"

    def recall(self, key: str) -> Toolset | None:
        """What the server of that key listed last; None where that is not known for certain."""
        if not _KEY.fullmatch(key):
            return None
        try:
            page = msgspec.json.decode(_read(self._folder / f"{key}.json"), type=_Page)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("%s is left aside: %s", self._folder / f"{key}.json", error)
            return None
        toolset = Toolset.of(page.tools)
        return toolset if page.key == key and page.digest == toolset.digest else None

    def keep(self, key: str, toolset: Toolset) -> None:
        """Write it down in place of what was there. A disk that refuses costs a start, and no more: it is logged."""
        page = msgspec.json.encode(_Page(1, key, toolset.digest, toolset.tools))
        if not _KEY.fullmatch(key) or len(page) > MAX_BYTES:
            return
        fresh = self._folder / f"{key}.{secrets.token_hex(8)}.new"
        try:
            self._make_folder()
            try:
                create_private(fresh, page)
                fresh.replace(self._folder / f"{key}.json")
            finally:
                with suppress(FileNotFoundError):
                    fresh.unlink()
        except OSError as error:
            _log.warning("the tools of an MCP server could not be kept in %s: %s", self._folder, error)

    def _make_folder(self) -> None:
        self._folder.parent.mkdir(_PRIVATE, parents=True, exist_ok=True)
        self._folder.mkdir(_PRIVATE, exist_ok=True)
        found = os.lstat(self._folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise NotADirectoryError(f"{self._folder} is not a directory of ours")


def _read(path: Path) -> bytes:
    fd = os.open(path, _READ)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError("it is not a plain file that only we can write")
        if found.st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES:,} bytes")
        # One byte more than was found: a file that grows meanwhile is not read for ever, and not decoded either.
        content = bytearray()
        while len(content) <= found.st_size and (chunk := os.read(fd, found.st_size + 1 - len(content))):
            content += chunk
        return bytes(content)
    finally:
        os.close(fd)
