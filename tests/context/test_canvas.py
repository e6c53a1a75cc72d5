"""Canvases: one for each conversation, bounded, and nobody else's business."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.canvas import MAX_BYTES, Canvas, CanvasStore
from tertulia.context.definitions import InternalCaller
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.tool_events import CanvasUpdated
from tertulia.testing import FakeClock


@pytest.fixture
def events() -> list[tuple[str, CanvasUpdated]]:
    return []


@pytest.fixture
def store(events: list[tuple[str, CanvasUpdated]]) -> CanvasStore:
    store = CanvasStore(lambda conversation, event: events.append((conversation, event)), FakeClock(1_700_000_000.0))
    store.open("c1", "employee")
    return store


def test_a_page_replaces_the_one_before(store: CanvasStore, events: Any) -> None:
    """S001-49."""
    assert store.update("c1", "<p>é</p>", "One") == Canvas("<p>é</p>", "One", "2023-11-14T22:13:20.000Z", 1)
    store.update("c1", "")
    assert store.get("c1") == Canvas("", None, "2023-11-14T22:13:20.000Z", 2)
    assert events == [("c1", CanvasUpdated(1, "One", 9)), ("c1", CanvasUpdated(2, None, 0))]


def test_what_was_cleared_is_gone_and_its_revision_goes_on(store: CanvasStore, events: Any) -> None:
    """S001-49."""
    store.update("c1", "<p>")
    assert store.clear("c1") is True
    assert store.clear("c1") is False
    assert store.list() == {}
    with pytest.raises(NotFoundError):
        store.get("c1")
    assert store.update("c1", "<p>").revision == 3
    assert [event.revision for _, event in events] == [1, 2, 3]


def test_what_was_never_opened_is_not_found(store: CanvasStore, events: Any) -> None:
    """S001-49: unknown is not found."""
    for act in (store.get, store.clear, lambda key: store.update(key, "<p>")):
        with pytest.raises(NotFoundError, match="'c2'"):
            act("c2")
    with pytest.raises(NotFoundError):
        store.get("c1")
    assert (store.list(), events) == ({}, [])


def test_pages_are_listed_by_conversation(store: CanvasStore) -> None:
    """S001-49."""
    store.open("c2", "service")
    store.open("c3", "service")
    store.update("c3", "three")
    store.update("c1", "one")
    assert {key: canvas.html for key, canvas in store.list().items()} == {"c1": "one", "c3": "three"}
    store.close("c1")
    store.close("c1")
    assert list(store.list()) == ["c3"]
    with pytest.raises(NotFoundError):
        store.get("c1")


@pytest.mark.parametrize("archetype", ["repo", "wizard"])
def test_a_repository_has_no_canvas(store: CanvasStore, events: Any, archetype: str) -> None:
    """S001-49, X-47, X-48."""
    store.open("c2", archetype, Canvas("smuggled", None, "", 9))
    with pytest.raises(InvalidParamsError, match=f"archetype '{archetype}' has no canvas"):
        store.update("c2", "<p>")
    assert (store.list(), events) == ({}, [])


@pytest.mark.parametrize(
    ("html", "title", "expected"),
    [
        (None, None, "html must be a text"),
        (5, None, "html must be a text"),
        (["<p>"], None, "html must be a text"),
        (b"<p>", None, "html must be a text"),
        ("\ud800", None, "html has a lone surrogate"),
        ("x" * (MAX_BYTES + 1), None, "limit is 524,288"),
        ("é" * (MAX_BYTES // 2 + 1), None, "limit is 524,288"),
        ("<p>", 5, "title"),
        ("<p>", "x" * 201, "title"),
        ("<p>", "\ud800", "title"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_page_that_is_refused_changes_nothing(
    store: CanvasStore, events: Any, html: Any, title: Any, expected: str
) -> None:
    """S001-49: the limit is counted in bytes of UTF-8."""
    before = store.update("c1", "é" * (MAX_BYTES // 2))
    with pytest.raises(InvalidParamsError, match=expected):
        store.update("c1", html, title)
    assert store.get("c1") is before
    assert len(events) == 1


async def test_the_caller_s_own_canvas_is_the_only_one_in_reach(store: CanvasStore) -> None:
    """S001-48, issue 9: agents cannot reach each other's canvas."""
    store.open("c2", "employee")
    handlers = store.handlers()
    call = InternalCaller("ada", "c2", AgentInstanceMeta(name="ada"), "canvas_update")
    answer = await handlers["canvas.update"](call, {"html": "mine", "conversation_id": "c1", "agentName": "eva"})
    assert answer == {"ok": True, "revision": 1}
    assert list(store.list()) == ["c2"]
    assert await handlers["canvas.clear"](call, {}) == {"ok": True, "cleared": True}
    assert await handlers["canvas.clear"](call, {}) == {"ok": True, "cleared": False}


def test_a_conversation_goes_on_with_the_canvas_it_had() -> None:
    store = CanvasStore()
    store.open("c1", "employee", Canvas("old", "T", "2023-11-14T22:13:20.000Z", 7))
    assert store.get("c1").html == "old"
    assert store.update("c1", "new").revision == 8


def test_a_canvas_that_was_cleared_in_an_earlier_life_goes_on_counting() -> None:
    """S001-49: a revision is never given twice."""
    store = CanvasStore()
    store.open("c", "employee", None, 7)
    assert (store.peek("c"), store.peek("nobody")) == (None, None)
    assert store.update("c", "x").revision == 8
    assert store.peek("c") == store.get("c")
