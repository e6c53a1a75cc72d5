"""Issue 26: each attack that docs/network.md lists has tests of these names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

ATTACKS = (
    *("address", "IPv6", "odd spellings", "trailing dot", "upper case", "punycode", "user info", "Host", "SNI"),
    *("redirect", "DNS", "smuggling", "relay", "descriptors", "another conversation", "slow", "endless"),
    *("10,000 connections", "kill -9"),
)
_TEST = re.compile(r"`(test_\w+)`")


def test_every_attack_of_the_issue_is_listed_with_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "network.md").read_text().partition("## Attacks")[2].partition("\n## ")[0]
    rows = [row for row in page.splitlines() if row.startswith("| ") and not row.startswith("| attack")]
    for attack in ATTACKS:
        assert any(attack in row.split("|")[1] for row in rows), attack
    there = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for row in rows:
        names = _TEST.findall(row)
        assert names, row
        for name in names:
            assert f"def {name}(" in there, name
