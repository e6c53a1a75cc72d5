"""What a native id rests on, and how it is written down."""

from __future__ import annotations

from typing import Any

from tertulia.conversation.native_session import STALE, NativeSession, identity_digest, native_session_from
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Usage
from tests.tables import each_row

CODEX = identity_digest(("codex", "/home/a/.codex"))
MADE = NativeSession("t-1", CODEX, "/work", 3, Usage(1, 2, 3, 4, 5), ItemId("i"), "told")


@each_row(
    ("agent", "cwd", "revision", "why"),
    [
        (("codex", "/home/a/.codex"), "/work", 3, None),
        (("claude", "/home/a/.codex"), "/work", 3, "another executor"),
        (("codex", "/home/b/.codex"), "/work", 3, "another home"),
        (("codex", "/home/a/.codex"), "/work/sub", 3, "another directory"),
        (("codex", "/home/a/.codex"), "/work", 4, "rewritten"),
    ],
)
def test_it_holds_for_the_same_agent_home_directory_and_history(
    agent: tuple[str, ...], cwd: str, revision: int, why: str | None
) -> None:
    """S003-32; DESIGN, native ids."""
    found = MADE.mismatch(identity_digest(agent), cwd, revision)
    assert found is None if why is None else why in (found or "")


@each_row("revision", [0, 7, STALE])
def test_it_is_read_back_for_the_history_that_there_is_now(revision: int) -> None:
    """S003-32: revisions are counted anew by each process."""
    noted = MADE.noted()
    assert "revision" not in noted
    assert "codex" not in str(noted)
    found = native_session_from(noted, revision)
    assert found is not None
    assert found.revision == revision
    assert found.noted() == noted


@each_row(
    "value",
    [
        None,
        {},
        {"native_id": 7},
        {**MADE.noted(), "native_id": "--dangerously-bypass"},
        {**MADE.noted(), "native_id": ""},
        {**MADE.noted(), "native_id": "a b"},
        {**MADE.noted(), "total": "much"},
    ],
)
def test_what_makes_no_sense_is_no_native_session(value: Any) -> None:
    """S003-32: a record may be anybody's; an id becomes an argument of a program."""
    assert native_session_from(value, 0) is None
