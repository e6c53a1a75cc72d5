"""SECURITY.md: its order, its links, and that no tier holds less than it says."""

from __future__ import annotations

import re

import tertulia
from tertulia.sandbox.launcher.landlock_tier import NOT_COVERED
from tertulia.sandbox.tier import MAY_REMAIN
from tests.docs.pages import README, ROOT

PAGE = ROOT / "SECURITY.md"
UNHELD_ROWS = {
    "controls of files": "controls of files",
    "protected names": ".git",
    "changes among them": ".git",
    "our own Python": "our own Python",
    "metadata": "mode, owner, times",
    "names of masked files": "names in a masked folder",
    "nothing new can be made": "startup files of your home",
    "startup files of others deeper": "startup files deeper in a root",
    "other processes can be seen": "seeing other processes",
    "/tmp and /dev/shm": "`/tmp`",
    "System V IPC": "System V IPC",
    "switches core dumps off": "written bytes",
    "loopback": "network off",
    "goes on if the three processes": "whatever is killed",
}
"""For each sentence of the Landlock tier about what it does not hold, the row of the table that says so."""


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_it_begins_with_what_is_promised_and_what_is_not() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    wanted = ["What is promised", "What is not promised", "The tiers", "Supported versions", "Reporting"]
    assert headings == wanted
    assert f"the version is {tertulia.__version__}" in PAGE.read_text()


def test_its_links_lead_somewhere_and_others_lead_to_it() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE.read_text()):
        path, _, place = target.partition("#")
        file = ROOT / path if path else PAGE
        assert file.is_file(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
        assert not place or place in map(anchor, headings), target
    for page in (README, ROOT / "CONTRIBUTING.md"):
        assert "(SECURITY.md)" in page.read_text()


def test_what_landlock_does_not_hold_stands_in_the_table() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    for sentence in (*NOT_COVERED, MAY_REMAIN):
        named = [row for words, row in UNHELD_ROWS.items() if words in sentence]
        assert named, f"SECURITY.md has no row for: {sentence}"
        found = [row for row in rows if row.startswith("| ") and named[0] in row.split("|")[1]]
        assert found, named
        assert found[0].split("|")[3].strip() != "held", found
