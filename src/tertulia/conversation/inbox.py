"""From what a client sent to what the model reads: one user message, checked whole before anything happens."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from tertulia.errors import InvalidParams
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.inputs import ImageInput, InputItem, LocalImageInput, TextInput, check_text
from tertulia.protocol.items import ImagePart, Part, TextPart, UserMessage

MAX_IMAGE_BYTES = 20 * 1024 * 1024

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def to_message(
    text: str | None, items: Sequence[InputItem] | None, *, cwd: str, sender: str | None = None
) -> UserMessage:
    """Text first, then items; InvalidParams when there is nothing in it."""
    parts: list[Part] = []
    if text:
        parts.append(TextPart(check_text(text, "text")))
    for index, item in enumerate(items or ()):
        parts.append(_part(item, f"items[{index}]", cwd))
    if not any(not isinstance(part, TextPart) or part.text for part in parts):
        raise InvalidParams("a message needs text or items, and both were empty")
    if sender is not None:
        check_text(sender, "sender")
    return UserMessage(new_item_id(), tuple(parts), sender=sender)


def _part(item: InputItem, where: str, cwd: str) -> Part:
    match item:
        case TextInput(text):
            return TextPart(check_text(text, f"{where}.text"))
        case ImageInput(image_url):
            if not image_url.startswith(("data:image/", "https://", "http://")):
                raise InvalidParams(f"{where}.image_url must be a data:image/ or https: address")
            return ImagePart(check_text(image_url, f"{where}.image_url"))
        case LocalImageInput(path):
            return ImagePart(_read_image(Path(cwd, check_text(path, f"{where}.path")), where))


def _read_image(path: Path, where: str) -> str:
    try:
        if not path.is_file():
            raise InvalidParams(f"{where}.path: {path} is not a file")
        size = path.stat().st_size
        if size > MAX_IMAGE_BYTES:
            raise InvalidParams(f"{where}.path: {path} has {size:,} bytes; the limit is {MAX_IMAGE_BYTES:,}")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidParams(f"{where}.path: cannot read {path}: {error}") from None
    for signature, mime in _SIGNATURES:
        if data.startswith(signature):
            return f"data:{mime};base64,{base64.b64encode(data).decode()}"
    raise InvalidParams(f"{where}.path: {path} is not a PNG, JPEG, GIF or WebP picture")
