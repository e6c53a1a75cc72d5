"""What a session is about, as far as it is stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.cli.exec.standard_input import with_data
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly
from tertulia.rollout.sqlite.ownership import Ownership
from tertulia.rollout.sqlite.summaries import PREVIEW_CHARACTERS, SearchBudget, search, session_cost, summary
from tests.rollout.homes import add_session, encoded, session_rows
from tests.rollout.stages import NOW, row
from tests.tables import each_row


@pytest.fixture
def home(room: Path) -> Path:
    return room / "home"


def test_a_summary_has_the_title_and_the_first_thing_somebody_said(home: Path) -> None:
    files = add_session(home, session_rows("  What does\n this do? ", "More", title="A question"))
    found = summary(home, files.session_id)
    assert (found.title, found.preview, found.held) == ("A question", "What does this do?", False)
    assert found.entry.id == files.session_id


def test_without_texts_there_is_neither(home: Path) -> None:
    files = add_session(home, session_rows("canary", title="canary", policy=HeadersOnly()))
    found = summary(home, files.session_id)
    assert (found.title, found.preview) == (None, None)


def test_a_preview_is_short_and_a_silent_session_has_none(home: Path) -> None:
    assert summary(home, add_session(home, session_rows("x" * 10_000)).session_id).preview == "x" * PREVIEW_CHARACTERS
    assert summary(home, add_session(home, session_rows(" ")).session_id).preview is None
    assert summary(home, add_session(home, session_rows(title="t")).session_id).preview is None


@each_row(
    ("prompt", "preview"),
    [("Which of these?", "Which of these?"), ("", "<standard_input> a b </standard_input>")],
)
def test_a_preview_has_no_data_behind_the_prompt(home: Path, prompt: str, preview: str) -> None:
    """`exec "Which of these?" < file`: the list of sessions shows the prompt."""
    assert summary(home, add_session(home, session_rows(with_data(prompt, "a\nb"))).session_id).preview == preview


def test_only_the_beginning_is_read(home: Path) -> None:
    rows = [
        *session_rows(title="t"),
        row(2000),
        row(2001, encoded(text="late"), kind="said", type="user", conversation=3),
    ]
    assert summary(home, add_session(home, rows).session_id).preview is None


def test_a_title_is_that_of_the_first_conversation(home: Path) -> None:
    rows = [
        *session_rows(),
        row(20, None, HeadersOnly(), kind="conversation", type="conversation", conversation=20),
        row(21, encoded(title="of another"), kind="terms", type="", conversation=20),
        row(22, encoded(title="later"), kind="terms", type="", conversation=3),
        row(
            23,
            encoded(parts=[{"text": "a"}, {"image_url": "x"}, 5, {"text": "b"}]),
            kind="queued",
            type="user",
            conversation=3,
        ),
    ]
    found = summary(home, add_session(home, rows).session_id)
    assert (found.title, found.preview) == ("later", "a b")


def test_a_session_that_is_open_says_so_and_one_that_is_not_there_is_not_found(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    owner = Ownership.take(files)
    assert summary(home, files.session_id).held
    owner.release()
    with pytest.raises(NotFoundError):
        summary(home, new_session_id())


def test_bodies_that_are_no_objects_are_passed_over(home: Path) -> None:
    """E8."""
    rows = [
        *session_rows(),
        row(20, b"[1]", kind="said", type="user", conversation=3, header=b"not json"),
        row(21, encoded(text=5, parts="x"), kind="said", type="user", conversation=3),
        row(22, b"[" * 100_000, kind="said", type="user", conversation=3),
        row(23, encoded(text="in the end"), kind="said", type="user", conversation=3),
    ]
    files = add_session(home, rows)
    assert summary(home, files.session_id).preview == "in the end"
    assert [match.n for match in search(home, "END")] == [23]


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_found_where_it_stands_newest_first(home: Path) -> None:
    older = add_session(home, session_rows("The needle is here", "nothing"))
    newer = add_session(home, [*session_rows("a NEEDLE", ts=NOW + 99), row(60, encoded(title="needle"), kind="terms")])
    add_session(home, session_rows("needle", policy=HeadersOnly()))
    found = list(search(home, "nEEdle"))
    assert [(match.session_id, match.n, match.type) for match in found] == [
        (newer.session_id, 10, "user"),
        (older.session_id, 10, "user"),
    ]
    assert found[1].excerpt == "The needle is here"
    assert len(list(search(home, "e", limit=1))) == 1
    assert list(search(home, "haystack")) == []


def test_an_excerpt_is_short(home: Path) -> None:
    add_session(home, session_rows("x" * 5000 + "needle" + "y" * 5000))
    (match,) = search(home, "needle")
    assert len(match.excerpt) < 200
    assert "xneedley" in match.excerpt


def test_damaged_sessions_are_passed_over_and_an_empty_text_is_refused(home: Path) -> None:
    broken = add_session(home, session_rows("needle", ts=NOW + 5))
    broken.db.write_bytes(b"garbage" * 999)
    torn = add_session(home, session_rows(*["needle " * 900] * 9, ts=NOW + 9))
    content = torn.db.read_bytes()
    torn.db.write_bytes(content[:-16384] + b"\xff" * 16384)
    good = add_session(home, session_rows("needle"))
    assert good.session_id in [match.session_id for match in search(home, "needle")]
    with pytest.raises(InvalidParamsError, match="empty"):
        list(search(home, ""))


def test_the_cost_of_a_session_is_that_of_its_requests_whose_price_is_known(home: Path) -> None:
    """UI.md 4.6: also where no texts are stored; a header that says nonsense counts nothing."""
    headers = [encoded(cost_usd=0.25), encoded(usage=[1, 2]), encoded(cost_usd="much"), b"[", encoded(cost_usd=1)]
    counts = [
        row(20 + place, None, HeadersOnly(), type="token_count", conversation=3, header=header)
        for place, header in enumerate(headers)
    ]
    assert session_cost(home, add_session(home, [*session_rows("a"), *counts]).session_id) == 1.25
    free = add_session(home, session_rows("b"))
    assert session_cost(home, free.session_id) is None
    free.db.write_bytes(b"no database" * 100)
    assert session_cost(home, free.session_id) is None
    damaged = add_session(home, [*session_rows("a"), *counts])
    with closing(sqlite3.connect(damaged.db)) as connection:
        connection.execute("ALTER TABLE record RENAME TO other")
    assert session_cost(home, damaged.session_id) is None
    with pytest.raises(NotFoundError):
        session_cost(home, new_session_id())


def test_a_preview_is_made_of_the_beginning_of_a_long_text(home: Path) -> None:
    """Blanks are taken together after the cut, so a text of blanks gives a short preview and costs no more."""
    files = add_session(home, session_rows(("a" + " " * 7) * 10_000))
    assert summary(home, files.session_id).preview == " ".join("a" * (PREVIEW_CHARACTERS // 2))


def test_a_search_can_be_of_one_session_names_the_conversation_and_ends_with_its_budget(home: Path) -> None:
    """Issue 23."""
    one = add_session(home, session_rows("a needle", "and hay"))
    add_session(home, session_rows("another needle"))
    (hit,) = search(home, "needle", session_id=one.session_id)
    assert (hit.session_id, hit.conversation_id) == (one.session_id, "~u")
    with pytest.raises(NotFoundError):
        list(search(home, "needle", session_id=new_session_id()))
    budget = SearchBudget(1)
    assert list(search(home, "needle", budget=budget)) == []
    assert budget.left <= 0
    assert len(list(search(home, "needle", budget=SearchBudget(10**6)))) == 2
