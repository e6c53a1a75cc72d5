"""What each side can do."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema as s

from tertulia.server.as_acp_abilities import Editor, own_abilities, read_editor


@pytest.mark.parametrize(
    ("able", "editor"),
    [
        (None, Editor()),
        ({}, Editor()),
        ({"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}, Editor(reads=True, writes=True)),
        ({"fs": {"readTextFile": True}}, Editor(reads=True)),
        ({"fs": {"writeTextFile": True}}, Editor(writes=True)),
        ({"_meta": {"terminal_output": True}}, Editor(terminal_output=True)),
        ({"_meta": {"terminal_output": "yes"}}, Editor()),
        ({"elicitation": {"form": {}}}, Editor(forms=True)),
        ({"elicitation": {"url": {}}}, Editor(pages=True)),
    ],
)
def test_only_what_an_editor_says_is_used_of_it(able: Any, editor: Editor) -> None:
    """Issue 10 (4)."""
    asked = s.InitializeRequest.model_validate({"protocolVersion": 1, "clientCapabilities": able})
    assert read_editor(asked) == editor


def test_our_own_answer_is_in_the_schemas_words() -> None:
    """Issue 10 (4): nothing in it that the schema does not know."""
    said = own_abilities()
    read = s.InitializeResponse.model_validate(said)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == said
