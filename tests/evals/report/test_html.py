"""Issue 24, 7: the page of results shows what candidates and checks wrote as text, and loads nothing."""

from __future__ import annotations

from html.parser import HTMLParser

from tertulia.evals.report.html import html_report
from tests.evals.suites import record

_HOSTILE = '<script>alert(1)</script><img src="x" onerror="y">\'"&'


class _Tags(HTMLParser):
    """Collects the tags of a page, and the text in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onerror"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_nothing_that_a_candidate_wrote_becomes_a_tag() -> None:
    fields = {"candidate": _HOSTILE, "kind": _HOSTILE, "detail": _HOSTILE, "answer": _HOSTILE, "session": _HOSTILE}
    page = _Tags()
    page.feed(html_report([record(_HOSTILE, "wrong", **fields), record("b", candidate="two", confined=False)]))
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert page.words.count(_HOSTILE) >= 6
    assert "which does not hide the checks" in page.words


def test_the_page_has_rates_intervals_kinds_of_failure_and_the_command_of_each_replay() -> None:
    runs = [
        record("a", session="s-1", cost_usd=0.5),
        record("a", "timeout", repeat=2, session="s-2", cost_usd=0.01),
        record("b", "wrong", session="s-3", detail="two and three", cost_usd=0.0),
    ]
    page = _Tags()
    page.feed(html_report(runs))
    for shown in ("33%", "6–79 %", "the run took longer than it may", "$0.51", "~ 1/2", "✗ 0/1", "two and three"):
        assert shown in page.words
    assert [page.words.count(f"tertulia sessions replay s-{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert "0 runs" in html_report([])
