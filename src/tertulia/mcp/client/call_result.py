"""Turns the result of a tool call into a `CallResult`: bounded text, images as parts, a line for what is neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.items import ImagePart, Part

if TYPE_CHECKING:
    import mcp_types as types

MAX_TEXT_BYTES = 1 << 20
MAX_PICTURE_BYTES = 16 << 20
"""Of all images of one result together, in base64."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def parse_call_result(result: types.CallToolResult) -> CallResult:
    """The result within our bounds, whatever the server sent."""
    first = result.content[0] if len(result.content) == 1 else None
    if first is not None and first.type == "text" and result.structured_content is None:
        # Most results.
        return _bounded(first.text, (), None, is_error=result.is_error)
    texts: list[str] = []
    parts: list[Part] = []
    room = MAX_PICTURE_BYTES
    for block in result.content:
        picture = _picture(block)
        if picture is not None and len(picture.image_url) <= room:
            room -= len(picture.image_url)
            parts.append(picture)
        else:
            texts.append(_text(block))
    structured, encoded = _structured(result.structured_content)
    if not texts and encoded:
        texts.append(encoded)
    return _bounded("\n".join(texts), tuple(parts), structured, is_error=result.is_error)


def _bounded(text: str, parts: tuple[Part, ...], structured: Any, *, is_error: bool) -> CallResult:
    if len(text) <= MAX_TEXT_BYTES // 4 and text.isascii():
        return CallResult(text, is_error=is_error, parts=parts, structured=structured, total_bytes=len(text))
    data = text.encode("utf-8", "replace")
    total = len(data)
    if total > MAX_TEXT_BYTES:
        half = MAX_TEXT_BYTES // 2
        head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
        text = f"{head}\n[… {total - MAX_TEXT_BYTES:,} of {total:,} bytes are left out …]\n{tail}"
    else:
        text = data.decode("utf-8")
    return CallResult(text, is_error=is_error, parts=parts, structured=structured, total_bytes=total)


def _structured(content: Any) -> tuple[Any, str]:
    """The content, and its text as JSON. Too long, it is dropped as a whole: half of a structure is of no use."""
    if content is None:
        return None, ""
    encoded = msgspec.json.encode(content)
    if len(encoded) > MAX_TEXT_BYTES:
        return None, f"[structured content of {len(encoded):,} bytes was left out]"
    return content, encoded.decode()


def _picture(block: types.ContentBlock) -> ImagePart | None:
    match block.type:
        case "image":
            kind, data = block.mime_type, block.data
        case "resource" if hasattr(block.resource, "blob"):
            kind, data = block.resource.mime_type or "", getattr(block.resource, "blob", "")
        case _:
            return None
    if kind not in _PICTURES or len(data) > MAX_PICTURE_BYTES or not _BASE64.fullmatch(data):
        return None
    return ImagePart(f"data:{kind};base64,{data}")


def _text(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image":
            return f"[a picture of {len(block.data) * 3 // 4:,} bytes was left out: {block.mime_type[:100]}]"
        case "audio":
            return f"[a sound of {len(block.data) * 3 // 4:,} bytes was left out: {block.mime_type[:100]}]"
        case "resource_link":
            about = f": {block.description}" if block.description else ""
            return f"[{block.title or block.name}]({block.uri}){about}"
        case "resource":
            return _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[{resource.uri}]\n{text}"
    size = len(getattr(resource, "blob", "")) * 3 // 4
    return f"[{resource.uri}: {size:,} bytes of {(resource.mime_type or 'data')[:100]} were left out]"
