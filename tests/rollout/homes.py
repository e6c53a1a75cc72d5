"""Homes with sessions in them, as the recorder writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly, StoragePolicy, storage_to_wire
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.store import Row
from tests.rollout.stages import FULL, NOW, row
from tests.rollout.still_clock import FakeClock


def encoded(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def session_rows(*arguments: str, policy: StoragePolicy = FULL, title: str | None = None, ts: float = NOW) -> list[Row]:
    """A session with one conversation, in which users said this."""
    bare = HeadersOnly()
    rows = [
        row(1, None, bare, kind="session", type="session", conversation=0, ts=ts, header=b"{}"),
        row(2, None, bare, type="session_configured", conversation=0, ts=ts, header=encoded(model="scripted/tour")),
        row(3, None, bare, kind="conversation", type="conversation", conversation=3, ts=ts, header=encoded(id="~u")),
        row(4, encoded(title=title), policy, kind="terms", type="", conversation=3, ts=ts),
        row(
            5,
            None,
            bare,
            kind="agreed",
            type="agreed",
            conversation=3,
            ts=ts,
            header=encoded(storage=storage_to_wire(policy)),
        ),
        row(
            6,
            encoded(text="<env>"),
            policy,
            kind="said",
            type="user",
            conversation=3,
            ts=ts,
            header=encoded(injected=True),
        ),
    ]
    for place, text in enumerate(arguments):
        rows.append(
            row(10 + place, encoded(text=text), policy, kind="said", type="user", conversation=3, ts=ts + place)
        )
    return [_without_body(row) if isinstance(policy, HeadersOnly) else row for row in rows]


def _without_body(original: Row) -> Row:
    return Row(*(None if name == "body" else getattr(original, name) for name in Row.__struct_fields__))


def add_session(home: Path, rows: Sequence[Row], session_id: str | None = None) -> SessionFiles:
    """Written, closed, and old enough for the index to believe that it does not change."""
    files = session_files(home, session_id or new_session_id())
    file = OwnedFile(files, FakeClock(NOW))
    file.commit(rows)
    file.close()
    age(files)
    return files


def age(files: SessionFiles, seconds: float = 0) -> None:
    """Let the file look as if it had not been touched for long."""
    os.utime(files.db, (NOW + seconds, NOW + seconds))


def everything_in(home: Path) -> bytes:
    """All bytes of all files. Only where this process has no session open."""
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())
