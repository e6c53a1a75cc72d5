"""What a person wrote in an editor, as a message: texts, pictures, files that were attached or only pointed to."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from acp import schema as s

from tertulia.errors import InvalidParamsError
from tertulia.server.acp.tool_call_view import fence_code
from tertulia.tools.images import read_image_info

PromptBlock = (
    s.TextContentBlock
    | s.ImageContentBlock
    | s.AudioContentBlock
    | s.ResourceContentBlock
    | s.EmbeddedResourceContentBlock
)

_PICTURES = re.compile(r"image/(png|jpeg|gif|webp)\Z")


def message_items(prompt: Sequence[PromptBlock]) -> list[dict[str, Any]]:
    """The items of a message, in order. InvalidParams for what no model could be shown."""
    return [_item(block, f"prompt[{number}]") for number, block in enumerate(prompt)]


def first_text(prompt: Sequence[PromptBlock]) -> str:
    """What was written first; empty where that is no text."""
    return prompt[0].text if prompt and isinstance(prompt[0], s.TextContentBlock) else ""


def prompt_text(prompt: Sequence[PromptBlock]) -> str:
    """All of it as one text. InvalidParams where there is more to it than words."""
    items = message_items(prompt)
    if not all(item["type"] == "text" for item in items):
        raise InvalidParamsError("what runs is steered with words alone; send a picture with the next prompt")
    return "\n".join(item["text"] for item in items)


def _item(block: PromptBlock, where: str) -> dict[str, Any]:
    match block:
        case s.TextContentBlock():
            return _text(block.text)
        case s.ImageContentBlock():
            return _picture(block.mime_type, block.data, where)
        case s.AudioContentBlock():
            raise InvalidParamsError(f"{where} is audio, and no model here listens; promptCapabilities says so")
        case s.ResourceContentBlock():
            return _text(f"[{block.title or block.name}]({block.uri})")
        case s.EmbeddedResourceContentBlock():
            return _resource_item(block.resource, where)


def _resource_item(resource: s.TextResourceContents | s.BlobResourceContents, where: str) -> dict[str, Any]:
    if isinstance(resource, s.TextResourceContents):
        return _text(f"\n{resource.uri}:\n{fence_code(resource.text)}\n")
    if _PICTURES.match(resource.mime_type or ""):
        return _picture(resource.mime_type or "", resource.blob, where)
    return _text(f"\n{resource.uri} (attached, {resource.mime_type or 'binary'}; it is no text and not shown)\n")


def _picture(mime: str, data: str, where: str) -> dict[str, Any]:
    if not _PICTURES.match(mime):
        raise InvalidParamsError(f"{where} must be image/png, image/jpeg, image/gif or image/webp, not {mime!r:.60}")
    try:
        picture = read_image_info(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise InvalidParamsError(f"{where} is not base64") from None
    if picture is None:
        raise InvalidParamsError(f"{where} is not a PNG, JPEG, GIF or WebP picture, whatever its mimeType says")
    # What it is counts: a provider would refuse the whole request for a wrong type.
    return {"type": "image", "image_url": f"data:{picture.mime};base64,{data}"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
