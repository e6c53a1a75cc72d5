"""What each side can do."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema as s

from tertulia.server.acp.editor import EditorCapabilities, initialize_result, read_editor_capabilities


@pytest.mark.parametrize(
    ("able", "editor"),
    [
        (None, EditorCapabilities()),
        ({}, EditorCapabilities()),
        (
            {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
            EditorCapabilities(reads=True, writes=True),
        ),
        ({"fs": {"readTextFile": True}}, EditorCapabilities(reads=True)),
        ({"fs": {"writeTextFile": True}}, EditorCapabilities(writes=True)),
        ({"_meta": {"terminal_output": True}}, EditorCapabilities(terminal_output=True)),
        ({"_meta": {"terminal_output": "yes"}}, EditorCapabilities()),
        ({"elicitation": {"form": {}}}, EditorCapabilities(forms=True)),
        ({"elicitation": {"url": {}}}, EditorCapabilities(pages=True)),
    ],
)
def test_only_what_an_editor_says_is_used_of_it(able: Any, editor: EditorCapabilities) -> None:
    """Issue 10 (4)."""
    asked = s.InitializeRequest.model_validate({"protocolVersion": 1, "clientCapabilities": able})
    assert read_editor_capabilities(asked) == editor


def test_our_own_answer_is_in_the_schemas_words() -> None:
    """Issue 10 (4): nothing in it that the schema does not know."""
    said = initialize_result()
    read = s.InitializeResponse.model_validate(said)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == said
