"""The page's own reducer: the golden cases of `tests/view/cases` run through it too (S001-33)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.view.golden import CASES, as_json, events_of, fold, read_case
from tests.web.node import run_node


def wire_events() -> dict[str, list[Any]]:
    """The events of all cases as a client gets them."""
    return {path.stem: [json.loads(event.json()) for event in events_of(read_case(path))] for path in CASES}


@pytest.fixture(scope="module")
def folded() -> dict[str, Any]:
    """What the page makes of every case."""
    return json.loads(run_node(Path(__file__).parent / "golden.mjs", stdin=wire_events()))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_page_folds_a_golden_case_into_the_same_board(path: Path, folded: dict[str, Any]) -> None:
    case = read_case(path)
    assert folded[path.stem]["board"] == case["board"], case["about"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_snapshot_at_any_event_goes_on_like_the_board_in_the_page(path: Path, folded: dict[str, Any]) -> None:
    assert folded[path.stem]["different"] == []


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_page_stops_a_board_like_the_terminal(path: Path, folded: dict[str, Any]) -> None:
    board = fold(events_of(read_case(path)))
    board.stop()
    assert folded[path.stem]["stopped"] == as_json(board)
