"""What a person wrote, as items of a message. Refusals are in test_as_acp."""

from __future__ import annotations

import base64

import acp
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.server.acp.content import first_text, message_items, prompt_text
from tests.tables import each_row
from tests.tools.test_images import PNG

PICTURE = base64.b64encode(PNG).decode()


def test_blocks_become_items_in_order() -> None:
    """Issue 10 (4): what is attached and is no text is named, a picture is shown."""
    items = message_items(
        [
            acp.text_block("see"),
            acp.resource_block(acp.embedded_blob_resource("file:///a.png", PICTURE, mime_type="image/png")),
            acp.resource_block(acp.embedded_blob_resource("file:///a.zip", "AAAA")),
            acp.resource_link_block("b", "file:///b", title="The B"),
        ]
    )
    assert items[1] == {"type": "image", "image_url": f"data:image/png;base64,{PICTURE}"}
    assert "file:///a.zip (attached, binary" in items[2]["text"]
    assert items[3]["text"] == "[The B](file:///b)"


def test_a_picture_is_called_what_it_is() -> None:
    """Issue 10 (4): a provider would refuse it under another name."""
    (item,) = message_items([acp.image_block(PICTURE, "image/webp")])
    assert item["image_url"].startswith("data:image/png;")


@each_row("uri", ["", "javascript:alert(1)", "file:///etc/passwd", "../../x", "a b\n](c", "ü" * 5_000])
def test_a_link_is_only_words(uri: str) -> None:
    """Issue 10 (4): nothing is fetched or opened for it, wherever it points."""
    assert message_items([acp.resource_link_block("x", uri)]) == [{"type": "text", "text": f"[x]({uri})"}]


def test_words_alone_become_one_text() -> None:
    """X-70: what steers has no pictures."""
    assert prompt_text([acp.text_block("see"), acp.resource_link_block("b", "file:///b")]) == "see\n[b](file:///b)"
    with pytest.raises(InvalidParamsError, match="words alone"):
        prompt_text([acp.text_block("see"), acp.image_block(PICTURE, "image/png")])


def test_the_first_words_are_those_of_a_text() -> None:
    """Issue 10 (4): a command, and the title of a session."""
    assert first_text([acp.text_block("/help"), acp.text_block("x")]) == "/help"
    assert first_text([acp.image_block("AAAA", "image/png")]) == first_text([]) == ""
