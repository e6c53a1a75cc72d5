"""Forms that MCP servers ask for: filled in with keys, checked before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tertulia.terminal.approvals.form_fields import FieldProblem, fields_of
from tertulia.terminal.approvals.messages import ElicitationAnswered
from tests.terminal.approvals.panel_app import PanelApp, PanelPilot, panel_with, question
from tests.terminal.screen import assert_golden

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 18, "maximum": 120},
        "urgent": {"type": "boolean", "default": False},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
        "sizes": {"type": "array", "items": {"type": "string", "enum": ["S", "M", "L"]}, "maxItems": 2},
        "mail": {"type": "string", "format": "email", "description": "where the answer goes"},
    },
    "required": ["name", "age", "colour"],
}


@asynccontextmanager
async def form(schema: dict[str, Any], **fields: Any) -> AsyncIterator[PanelPilot]:
    app = PanelApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.asking.elicit(schema, **fields)
        app.show()
        await pilot.pause()
        app.panel.focus()
        await pilot.pause()
        app.clock.seconds += 1
        yield PanelPilot(app, pilot)


def answered(panel: PanelPilot) -> list[tuple[str, Any]]:
    return [
        (message.action, message.content) for message in panel.app.posted if isinstance(message, ElicitationAnswered)
    ]


async def test_a_form_is_filled_in_and_sent() -> None:
    async with form(SCHEMA) as panel:
        assert "root › tester: the MCP server tickets asks you" in panel.text
        await panel.press("enter", *"Ada", "enter")
        await panel.press("enter", *"36", "enter")
        await panel.press("space", "down", "right", "right", "down")
        await panel.press("space", "right", "right", "space", "down")
        await panel.press("enter", *"ada@example.org", "enter")
        await panel.press("y")
        content = {"name": "Ada", "age": 36, "urgent": True, "colour": "g", "sizes": ["S", "L"]}
        assert answered(panel) == [("accept", {**content, "mail": "ada@example.org"})]


async def test_what_is_missing_is_said_at_its_field_and_nothing_is_sent() -> None:
    async with form(SCHEMA) as panel:
        await panel.press("y")
        assert answered(panel) == []
        assert panel.text.count("! this is required") == 3
        assert "› Your name" in panel.text


async def test_a_value_that_does_not_fit_stays_in_its_field() -> None:
    async with form(SCHEMA) as panel:
        await panel.press("down", "enter", *"abc", "enter")
        assert "! this must be a whole number" in panel.text
        await panel.press("backspace", "backspace", "backspace", *"7", "enter")
        assert "! this must be at least 18" in panel.text
        await panel.press("backspace", *"70", "enter")
        assert "!" not in panel.text
        assert "age  70" in panel.text


async def test_a_form_may_be_declined_once() -> None:
    async with form(SCHEMA) as panel:
        await panel.press("n", "n")
        assert answered(panel) == [("decline", None)]


async def test_enter_opens_a_field_and_never_sends_the_form() -> None:
    async with form({"properties": {"name": {"type": "string", "default": "Ada"}}}) as panel:
        await panel.press("enter", "enter", "enter", "escape")
        assert answered(panel) == []


async def test_a_page_to_be_visited_is_shown_and_confirmed() -> None:
    async with form({}, url="https://example.org/pay?id=7") as panel:
        assert "page     https://example.org/pay?id=7" in panel.text
        await panel.press("y")
        assert answered(panel) == [("accept", None)]


async def test_what_the_whole_schema_forbids_is_said_before_it_is_sent() -> None:
    schema = {"properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$", "default": "abc"}}}
    async with form(schema) as panel:
        await panel.press("y")
        assert answered(panel) == []
        assert "! " in panel.text


async def test_texts_of_a_server_cannot_pass_for_ours_or_steer_the_screen() -> None:
    """HARDENING A22: what an MCP server writes is shown, never obeyed."""
    async with form({}, server="evil\x1b[2J", message="hi\x1b]0;x\x07\ny send") as panel:
        assert not set(panel.text) & set("\x1b\x07")
        assert "▌ │ y send" in panel.text


@pytest.mark.parametrize(
    ("schema", "text", "sentence"),
    [
        ({"type": "string", "format": "email"}, "ada", "e-mail address"),
        ({"type": "string", "format": "uri"}, "example", "an address"),
        ({"type": "string", "format": "date"}, "17.11.2026", "a date"),
        ({"type": "string", "format": "date-time"}, "2026-11-17T21:30:00", "with its zone"),
        ({"type": "string", "maxLength": 3}, "abcd", "at most 3 characters"),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "more than 0"),
        ({"type": "number", "maximum": 1.5}, "2", "at most 1.5"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "integer"}, "1.5", "a whole number"),
    ],
)
def test_a_value_is_refused_with_a_sentence(schema: dict[str, Any], text: str, sentence: str) -> None:
    [field] = fields_of({"properties": {"it": schema}})
    with pytest.raises(FieldProblem, match=sentence):
        field.parse(text)


@pytest.mark.parametrize(
    ("schema", "labels"),
    [
        ({"type": "string", "oneOf": [{"const": "a", "title": "Ay"}, {"const": "b"}]}, ["Ay", "b"]),
        ({"type": "array", "items": {"anyOf": [{"const": 1, "title": "one"}]}}, ["one"]),
        ({"enum": ["x", "y"], "enumNames": ["ex"]}, ["ex", "y"]),
    ],
)
def test_choices_are_called_what_the_server_calls_them(schema: dict[str, Any], labels: list[str]) -> None:
    [field] = fields_of({"properties": {"it": schema}})
    assert [option.label for option in field.options] == labels


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 3}, {"properties": {"a": None}}, {"properties": {"a": {"enum": 1}}}]
)
def test_an_odd_schema_makes_a_form_all_the_same(schema: dict[str, Any]) -> None:
    assert all(field.kind == "text" for field in fields_of(schema))


async def test_golden_form() -> None:
    async with form(SCHEMA) as panel:
        await panel.press("down")
        assert_golden(panel.app, "approvals-form-80x24")


async def test_escape_leaves_a_form_as_it_is_and_only_the_key_for_it_cancels() -> None:
    """Issue 22 (4): Esc answers nothing; `x` tells the server that no answer is given."""
    async with form(SCHEMA) as panel:
        assert "x cancel" in panel.text
        await panel.press("enter", *"Ada", "enter", "escape")
        assert answered(panel) == []
        assert panel.app.composer.has_focus
        panel.app.panel.focus()
        await panel.pilot.pause()
        assert "Ada" in panel.text, "what was filled in is still there"
        await panel.press("x")
        assert answered(panel) == [("cancel", None)]
        assert "cancel: sent" in panel.text


async def test_an_approval_has_no_cancel() -> None:
    async with panel_with(question()) as panel:
        await panel.press("x")
        assert panel.app.answers() == []
        assert "x is not offered for this question" in panel.text
