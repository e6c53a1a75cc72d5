"""What a person wrote, as items of a message. Refusals are in test_as_acp."""

from __future__ import annotations

import acp

from tertulia.server.as_acp_prompt import first_words, items_of


def test_blocks_become_items_in_order() -> None:
    """Issue 10 (4): what is attached and is no text is named, a picture is shown."""
    items = items_of(
        [
            acp.text_block("see"),
            acp.resource_block(acp.embedded_blob_resource("file:///a.png", "AAAA", mime_type="image/png")),
            acp.resource_block(acp.embedded_blob_resource("file:///a.zip", "AAAA")),
            acp.resource_link_block("b", "file:///b", title="The B"),
        ]
    )
    assert items[1] == {"type": "image", "image_url": "data:image/png;base64,AAAA"}
    assert "file:///a.zip (attached, binary" in items[2]["text"]
    assert items[3]["text"] == "[The B](file:///b)"


def test_the_first_words_are_those_of_a_text() -> None:
    """Issue 10 (4): a command, and the title of a session."""
    assert first_words([acp.text_block("/help"), acp.text_block("x")]) == "/help"
    assert first_words([acp.image_block("AAAA", "image/png")]) == first_words([]) == ""
