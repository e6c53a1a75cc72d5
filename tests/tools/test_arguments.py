"""What a model is told about a tool's arguments, and what is taken from it."""

from __future__ import annotations

import json

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.schema.schema import Schema
from tertulia.tools.arguments import define_tool
from tertulia.tools.registry import ToolRegistry
from tests.tables import each_row
from tests.tools.calling import StubTool

SHOWN = {"path": {"type": "string"}, "mode": {"type": "string", "enum": ["a", "b"]}}
ALSO = {"detail": {"type": ["string", "null"]}}


def taken(spec: ToolSpec) -> Schema:
    return ToolRegistry([StubTool("other")]).schema(spec)


def test_what_is_only_taken_is_not_shown() -> None:
    """Issue 7"""
    spec = define_tool("look", "Looks.", SHOWN, ["path"], ALSO)
    shown = json.loads(spec.schema)
    assert shown == {"type": "object", "properties": SHOWN, "required": ["path"], "additionalProperties": False}
    assert spec.digest == define_tool("look", "Looks.", SHOWN, ["path"]).digest
    taken(spec).validate({"path": "x", "detail": "original"})


def test_what_is_not_required_may_be_null() -> None:
    spec = define_tool("look", "Looks.", SHOWN, ["path"])
    taken(spec).validate({"path": "x", "mode": None})
    taken(spec).validate({"path": "x", "mode": "b"})


@each_row("wrong", [{"path": None}, {"path": "x", "mode": "c"}, {"path": "x", "detail": "d"}, {}])
def test_everything_else_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParamsError):
        taken(define_tool("look", "Looks.", SHOWN, ["path"])).validate(wrong)
