"""Pictures that a person adds to a message: recognised by their first bytes, shown as `[picture 1280x720, 210 KB]`.

Reading them blocks: a clipboard is read in a thread.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec

_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MAX_PATH = 4_096
_PNG = b"\x89PNG\r\n\x1a\n"
_CLIPBOARD_PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
_TIMEOUT_S = 2.0
_MAX_CLIPBOARD = 20 * 1024 * 1024
_HEAD = 256 * 1024
"""Bytes that are read to find the size; a photograph may begin with a long description."""


class Picture(msgspec.Struct, frozen=True):
    """A picture in a file, or from the clipboard."""

    path: str
    """Empty: it comes from the clipboard, and no file is written for it."""
    width: int
    height: int
    size: int
    """How many bytes it has."""
    data: bytes = b""
    """All of it, where it has no file."""

    @property
    def item(self) -> dict[str, str]:
        """The picture as `conversation/message` takes it."""
        if self.path:
            return {"type": "local_image", "path": self.path}
        return {"type": "image", "image_url": f"data:image/png;base64,{b64encode(self.data).decode()}"}

    @property
    def label(self) -> str:
        """What stands for it in the text."""
        size = f"{self.size / 1_000_000:.1f} MB" if self.size >= 1_000_000 else f"{max(self.size // 1_000, 1)} KB"
        return f"[picture {self.width}x{self.height}, {size}]"


def picture_in(text: str, directory: Path) -> Picture | None:
    """The picture that a pasted text names: a path, quoted or not, or a file: address. None: it names none."""
    name = _path_in(text.strip())
    if name is None or not name.lower().endswith(_ENDINGS):
        return None
    try:
        return read_picture(directory / Path(name).expanduser())
    except (OSError, ValueError, RuntimeError):
        return None


def _path_in(text: str) -> str | None:
    if not text or len(text) > _MAX_PATH or "\n" in text:
        return None
    if text.startswith("file://"):
        return unquote(urlparse(text).path)
    if text.endswith(_ENDINGS) and "\\" not in text and text[0] not in "'\"":
        return text
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    return words[0] if len(words) == 1 else None


def read_picture(path: Path) -> Picture:
    """The size of a picture. ValueError: the file is no picture that models read; OSError: it cannot be read."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is not a file")
        head = os.read(file, _HEAD)
    finally:
        os.close(file)
    found = _size_of(head)
    if found is None:
        raise ValueError(f"{path} is no picture that models read (PNG, JPEG, GIF or WebP)")
    return Picture(str(path), *found, facts.st_size)


def clipboard_picture() -> Picture | None:
    """The picture on the clipboard, read by a program of the desktop; None: there is none, or no such program."""
    for words in _CLIPBOARD_PROGRAMS:
        try:
            reply = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        data = reply.stdout
        if reply.returncode == 0 and len(data) <= _MAX_CLIPBOARD and data.startswith(_PNG) and (size := _png(data)):
            return Picture("", *size, len(data), data)
    return None


def _size_of(head: bytes) -> Size:
    kinds = ((signature, size) for signature, size in _KINDS if head.startswith(signature))
    return next((found for _, size in kinds if (found := size(head)) is not None), None)


Size = tuple[int, int] | None


def _png(head: bytes) -> Size:
    return _pair(head, 16, 20, 4, "big")


def _gif(head: bytes) -> Size:
    return _pair(head, 6, 8, 2, "little")


def _webp(head: bytes) -> Size:
    if head[8:12] != b"WEBP":
        return None
    match head[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(head[24:27], "little"), int.from_bytes(head[27:30], "little")
            return width + 1, height + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            pair = _pair(head, 26, 28, 2, "little")
            return None if pair is None else (pair[0] & 0x3FFF, pair[1] & 0x3FFF)
        case _:
            return None


def _jpeg(head: bytes) -> Size:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            pair = _pair(head, at + 5, at + 7, 2, "big")
            return None if pair is None else (pair[1], pair[0])
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def _pair(head: bytes, first: int, second: int, size: int, order: str) -> Size:
    if len(head) < second + size:
        return None
    byte_order = "big" if order == "big" else "little"
    return (
        int.from_bytes(head[first : first + size], byte_order),
        int.from_bytes(head[second : second + size], byte_order),
    )


_KINDS: tuple[tuple[bytes, Callable[[bytes], Size]], ...] = (
    (_PNG, _png),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
    (b"\xff\xd8", _jpeg),
)
