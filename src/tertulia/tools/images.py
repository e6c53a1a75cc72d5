"""Reads the kind and size of a picture from the first bytes of its file, and pictures of the workspace for a task."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence

import msgspec

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.protocol.ids import TaskId
from tertulia.protocol.inputs import ImageInput, InputItem, LocalImageInput
from tertulia.tools.tool import CallContext
from tertulia.tools.workspace_file import read_inside

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_NO_SIZE_IN = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG segments with numbers in the range of frames that are not frames."""


class ImageInfo(msgspec.Struct, frozen=True, gc=False):
    """A picture that models can be shown."""

    mime: str
    width: int
    height: int


def read_image_info(data: bytes) -> ImageInfo | None:
    """Of a PNG, JPEG, GIF or WebP; None for anything else, and for one that is cut off before its size."""
    for mime, fits, size in _KINDS:
        if not fits(data):
            continue
        try:
            width, height = size(data)
        except (struct.error, IndexError):
            return None
        return ImageInfo(mime, width, height) if width > 0 and height > 0 else None
    return None


def _png(data: bytes) -> tuple[int, int]:
    return struct.unpack_from(">II", data, 16)


def _gif(data: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", data, 6)


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, at)
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE_IN:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + max(length, 2)


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            width, height = data[24:27], data[27:30]
            return 1 + int.from_bytes(width, "little"), 1 + int.from_bytes(height, "little")
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case _:
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF


_Kind = tuple[str, Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]
_KINDS: tuple[_Kind, ...] = (
    ("image/png", lambda data: data.startswith(_PNG), _png),
    ("image/jpeg", lambda data: data.startswith(_JPEG), _jpeg),
    ("image/gif", lambda data: data[:6] in (b"GIF87a", b"GIF89a"), _gif),
    ("image/webp", lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp),
)


MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_TASK_BYTES = 32 * 1024 * 1024
"""Of all pictures that the calls of one task name: a short answer can name the same large file a thousand times."""


class WorkspaceImages:
    """Reads pictures, and counts how much the running task has read."""

    __slots__ = ("_hidden", "_read", "_task")

    def __init__(self, hidden: Callable[[], Sequence[str]]) -> None:
        """`hidden`: returns the places where nothing is read; called at each use."""
        self._hidden = hidden
        self._task: TaskId | None = None
        self._read = 0

    async def shown(self, items: Sequence[InputItem], call: CallContext) -> tuple[InputItem, ...]:
        """The items with each path of a picture replaced by the picture; InvalidParams or Limit."""
        if call.task_id != self._task:
            self._task, self._read = call.task_id, 0
        return tuple([await self._shown(item, f"items[{index}].path", call) for index, item in enumerate(items)])

    async def _shown(self, item: InputItem, field: str, call: CallContext) -> InputItem:
        if not isinstance(item, LocalImageInput):
            return item
        data = await read_inside(call.cwd, item.path, MAX_IMAGE_BYTES, field, call.hidden(self._hidden()))
        picture = read_image_info(data)
        if picture is None:
            raise InvalidParamsError(f"{field} {item.path!r:.200} is not a PNG, JPEG, GIF or WebP picture")
        self._read += len(data)
        if self._read > MAX_TASK_BYTES:
            raise LimitError(f"the pictures of this task have more than {MAX_TASK_BYTES:,} bytes together; show fewer")
        return ImageInput(f"data:{picture.mime};base64,{base64.b64encode(data).decode()}")
