"""Reads the prompt of an editor as a message, and writes texts and remarks as ACP's content.

A prompt has texts, pictures, and files that were attached or only pointed to.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, Literal

from acp import schema as s

from tertulia.errors import InvalidParamsError
from tertulia.policy.display_text import make_display_text
from tertulia.protocol.ids import ItemId
from tertulia.server.client_surface import steering_text
from tertulia.tools.images import read_image_info

PromptBlock = (
    s.TextContentBlock
    | s.ImageContentBlock
    | s.AudioContentBlock
    | s.ResourceContentBlock
    | s.EmbeddedResourceContentBlock
)

Update = dict[str, Any]
"""One `update` of a `session/update`, in ACP's spelling."""
ChunkKind = Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]

MAX_TITLE = 200
_TICKS = re.compile("`+")
_PICTURES = re.compile(r"image/(png|jpeg|gif|webp)\Z")


def message_items(prompt: Sequence[PromptBlock]) -> list[dict[str, Any]]:
    """The items of a message, in order. InvalidParams for what no model could be shown."""
    return [_item(block, f"prompt[{number}]") for number, block in enumerate(prompt)]


def first_text(prompt: Sequence[PromptBlock]) -> str:
    """The first text; empty where the first part is no text."""
    return prompt[0].text if prompt and isinstance(prompt[0], s.TextContentBlock) else ""


def prompt_text(prompt: Sequence[PromptBlock]) -> str:
    """The prompt as one text. InvalidParams where it has other parts."""
    refusal = "what runs is steered with words alone; send a picture with the next prompt"
    return steering_text(message_items(prompt), refusal)


def _item(block: PromptBlock, where: str) -> dict[str, Any]:
    match block:
        case s.TextContentBlock():
            return _text(block.text)
        case s.ImageContentBlock():
            return _picture(block.mime_type, block.data, where)
        case s.AudioContentBlock():
            raise InvalidParamsError(
                f"{where} is audio, which is not supported here (see promptCapabilities); send text"
            )
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
    # By its content, not its label: a provider would refuse the whole request for a wrong type.
    return {"type": "image", "image_url": f"data:{picture.mime};base64,{data}"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# ---- what is sent


def text_block(text: str) -> dict[str, str]:
    """A text as ACP's content."""
    return {"type": "text", "text": text}


def chunk_update(voice: ChunkKind, content: dict[str, Any], item_id: ItemId | None = None) -> Update:
    """A piece of a message. Pieces of one message have its id."""
    update: Update = {"sessionUpdate": voice, "content": content}
    return update if item_id is None else {**update, "messageId": item_id}


def remark_update(text: str) -> Update:
    """A remark of the session, which is not part of the answer."""
    return chunk_update("agent_thought_chunk", text_block(f"{text}\n"))


def one_line(text: str) -> str:
    """A text as a title: in one line, not too long, and with nothing in it that hides."""
    words = " ".join(text[: MAX_TITLE * 4].split())
    return make_display_text(words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1] + "…").text


def fence_code(text: str) -> str:
    """A text that Markdown leaves as it is, whatever is in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
