"""`tertulia schema`, and the copy of it that is checked in."""

from __future__ import annotations

import json
from pathlib import Path

from tertulia.cli.inspect.schema import as_text
from tests.cli.running import Shell

CHECKED_IN = Path(__file__).parents[3] / "docs" / "schema.json"


def test_the_copy_that_is_checked_in_is_what_this_version_speaks() -> None:
    """Issue 10, 1: a change of the wire shows in review. Renew it with `tertulia schema > docs/schema.json`."""
    assert CHECKED_IN.read_text() == as_text()


def test_it_prints_one_document(shell: Shell) -> None:
    ran = shell.run("schema")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["operations"]["conversation/message"]["params"] == {"$ref": "#/$defs/Message"}
    assert "task_complete" in document["events"]
