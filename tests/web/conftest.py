"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.browser import Browser, started_browser, why_not


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real chromium, or the reason why there is none."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with started_browser() as started:
        yield started
