"""A pattern in short steps finds what it finds in one, wherever the steps meet."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy import redaction
from tertulia.policy.redaction import OVERLAP, WINDOW, Redactor, occurs_in, replace_all
from tests.tables import each_row

KEY = re.compile(r"(?<![a-z])(?P<before>k-)[a-z]{2,}(?![0-9])")


def shown(found: re.Match[str]) -> str:
    return found["before"] + "*"


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "WINDOW", 12)
    monkeypatch.setattr(redaction, "OVERLAP", 6)
    monkeypatch.setattr(redaction, "_NEAR", 2)


@pytest.mark.usefixtures("short_steps")
@given(text=st.text(alphabet="k-ab0 ", max_size=80))
def test_steps_find_what_one_search_finds(text: str) -> None:
    """L1: also look-behinds, look-aheads, and matches that are longer than a step."""
    assert replace_all(KEY, shown, text) == KEY.sub(r"\g<before>*", text)
    assert occurs_in(KEY, text) == (KEY.search(text) is not None)


@pytest.mark.usefixtures("short_steps")
@each_row("text", ["........k-ab0..........k-cd....", "........k-abcdefghijklmnop.....", "...........k-ab 0", "k-ab"])
def test_what_stands_behind_a_step_counts(text: str) -> None:
    assert replace_all(KEY, shown, text) == KEY.sub(r"\g<before>*", text)


@each_row("place", [0, WINDOW - 60, WINDOW - 20, WINDOW - 1, WINDOW, 2 * WINDOW - OVERLAP, 5 * WINDOW])
def test_a_secret_is_found_wherever_steps_meet(place: int) -> None:
    """HARDENING E6."""
    text = "." * place + " ghp_" + "a1" * 20 + " -----BEGIN PRIVATE KEY-----" + "M" * 3_000 + "." * 5 * WINDOW
    redacted = Redactor().text(text)
    assert "a1a1" not in redacted
    assert "MMMM" not in redacted
    assert redacted.startswith("." * place + " [redacted:github-token] [redacted:private-key]")


def test_a_text_without_a_match_stays_the_same_object() -> None:
    text = "." * 2 * WINDOW
    assert replace_all(KEY, shown, text) is text


def test_a_text_with_a_secret_at_every_place_takes_little_time() -> None:
    """L1: sixteen megabytes of passwords in addresses took minutes."""
    text = "://a:b@" * 230_000
    began = time.thread_time()
    assert Redactor().text(text) == "://a:[redacted:password]@" * 230_000
    assert time.thread_time() - began < 2
