"""Cells: what their checksums vouch for, and what crafted ones come to."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.errors import StorageError
from tertulia.protocol.storage import Ttl
from tertulia.rollout.sqlite import table
from tertulia.rollout.sqlite.database import SCHEMA
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.store import LongBody, StoredRow
from tests.rollout.stages import NOW, row, same
from tests.tables import each_row


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = bytes
    connection.execute(SCHEMA)
    yield connection
    connection.close()


def read(connection: sqlite3.Connection) -> list[StoredRow]:
    return [table.read_row(cells) for cells in connection.execute(table.SELECT, (0, 2**63 - 1, 0.0))]


def test_a_record_comes_back_whole(connection: sqlite3.Connection) -> None:
    rows = [row(1), row(2, None), row(3, b"", Ttl(5), seq=None), row(4, header=b"\xff\x00", ts=5)]
    table.insert(connection, rows, Head.of(connection))
    assert read(connection) == [same(row) for row in rows]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
def test_few_and_many_are_written_all_or_none(connection: sqlite3.Connection, count: int) -> None:
    """DESIGN, Storage: a batch is one transaction, whether it is one statement or several."""
    rows = [row(n, b"text" * n) for n in range(1, count + 1)]
    size = table.insert(connection, rows, Head.of(connection))
    assert size == sum(len(row.header) + len(row.body or b"") for row in rows)
    assert read(connection) == [same(row) for row in rows]
    assert not connection.in_transaction

    taken = [row(n) for n in (*range(100, 100 + count), 1)]
    if count:
        with pytest.raises(sqlite3.IntegrityError):
            table.insert(connection, taken, Head.of(connection))
    assert read(connection) == [same(row) for row in rows]
    assert not connection.in_transaction


def test_bodies_that_are_encoded_when_they_are_stored_are_in_memory_one_at_a_time(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1: a conversation that is opened with long instructions records them twice, in one transaction."""
    monkeypatch.setattr(table, "_LONG_BODY_BYTES", 10)
    bodies = {2: b"x" * 20, 3: b"short", 4: b"y" * 30, 5: None}
    written: list[int] = []

    def encode(n: int) -> bytes | None:
        written.append(connection.execute("SELECT count(*) FROM record WHERE n > 0").fetchone()[0])
        return bodies[n]

    rows = [replace(row(n), body=LongBody(n, encode)) for n in bodies]
    size = table.insert(connection, [*rows, row(1, b"first")], Head.of(connection))
    assert written == [1, 2, 3, 4], "each is encoded when those before it are written"
    assert size == sum(len(row(n).header) for n in range(1, 6)) + len(b"first") + 20 + 5 + 30
    assert [stored.body for stored in read(connection)] == [b"first", *bodies.values()]


def test_long_bodies_are_written_in_pieces_among_short_ones(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1: all or none, as ever; nothing of them goes through a statement, which would copy them twice."""
    monkeypatch.setattr(table, "_LONG_BODY_BYTES", 10)
    monkeypatch.setattr(table, "_PIECE_BYTES", 4)
    rows = [row(1, b"short"), row(2, b"eleven byte"), row(3, None), row(4, bytes(range(256))), row(5, b"")]
    head = Head.of(connection)
    assert table.insert(connection, rows, head) == sum(len(row.header) + len(row.body or b"") for row in rows)
    assert read(connection) == [same(row) for row in rows]
    with pytest.raises(sqlite3.IntegrityError):
        table.insert(connection, [row(6, b"x" * 20), row(4, b"y" * 20)], head)
    assert read(connection) == [same(row) for row in rows]
    assert not connection.in_transaction


@pytest.mark.parametrize(
    "column", ["kind", "type", "ts", "seq", "conversation", "task", "source", "header", "header_crc"]
)
def test_a_changed_header_is_not_read(connection: sqlite3.Connection, column: str) -> None:
    """F4: detected by checksum, the rest readable."""
    table.insert(connection, [row(1), row(2), row(3)], Head.of(connection))
    connection.execute(f"UPDATE record SET {column} = CAST({column} AS BLOB) || '1' WHERE n = 2")
    assert read(connection) == [same(row(1)), table.damaged_row(2), same(row(3))]
    connection.execute(f"UPDATE record SET {column} = 77 WHERE n = 2")
    assert read(connection) == [same(row(1)), table.damaged_row(2), same(row(3))]


@pytest.mark.parametrize("change", ["body = X'00'", "body = NULL", "body_crc = 5", "body_crc = NULL", "body = 'text'"])
def test_a_changed_body_is_not_read_and_its_header_is(connection: sqlite3.Connection, change: str) -> None:
    """F4."""
    table.insert(connection, [row(1)], Head.of(connection))
    connection.execute(f"UPDATE record SET {change}")
    (found,) = read(connection)
    assert (found.damaged, found.body, found.header) == (True, None, b"{}")


def test_a_body_in_another_record_s_place_proves_nothing(connection: sqlite3.Connection) -> None:
    """F4: swapped."""
    table.insert(connection, [row(1, b"one"), row(2, b"two")], Head.of(connection))
    connection.execute("UPDATE record SET body = 'x', body_crc = (SELECT body_crc FROM record WHERE n = 1)")
    connection.execute("UPDATE record SET body = CAST('one' AS BLOB)")
    assert [found.damaged for found in read(connection)] == [False, True]


def test_a_body_that_was_erased_leaves_the_record_sound(connection: sqlite3.Connection) -> None:
    table.insert(connection, [row(1)], Head.of(connection))
    assert table.erase_bodies(connection) == 1
    assert read(connection) == [same(row(1, None))]


CELLS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=9), st.text(max_size=9)
)


@given(st.lists(CELLS, min_size=11, max_size=11))
def test_cells_of_any_type_are_data(cells: list[Any]) -> None:
    """E8: whoever crafts a record can compute its checksum too."""
    found = table.read_row((5, *cells))
    assert isinstance(found, StoredRow)
    assert found.n == 5
    if not found.damaged:
        assert isinstance(found.ts, float)


@each_row(
    "cells",
    [
        (b"event", b"x", NOW, b"not a number", 0, 0, 0),
        (b"event", b"x", float("inf"), 1, 0, 0, 0),
        (b"event", b"x", 1e300, 1, 0, 0, 0),
        (b"event", b"x", 5, 1, 0, 0, 0),
        (b"event", b"x", NOW, 1, 0.5, 0, 0),
        (b"event", b"x", NOW, 1, 0, b"0", 0),
        (b"event", b"x", NOW, 1, 0, 0, None),
        (b"\xff\xfe", b"x", NOW, 1, 0, 0, 0),
        (None, b"x", NOW, 1, 0, 0, 0),
        (b"event", 5, NOW, 1, 0, 0, 0),
    ],
)
def test_wrong_types_with_a_right_checksum_are_damaged(cells: tuple[Any, ...]) -> None:
    """E8: where there is one."""
    kind, type, *place = cells
    try:
        proof = table._prove(b"%b %b" % (kind, type), table._pack(1, *place), b"{}")
    except (TypeError, struct.error):
        proof = 0
    assert table.read_row((1, *cells, proof, None, b"{}", None)) == table.damaged_row(1)


def test_what_is_larger_than_is_read_is_not_written(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MAX_BODY_BYTES", 100)
    monkeypatch.setattr(table, "MAX_HEADER_BYTES", 10)
    for wrong in (row(1, b"x" * 101), row(1, None, header=b"x" * 11)):
        with pytest.raises(StorageError, match="larger than"):
            table.insert(connection, [wrong], Head.of(connection))
    table.insert(connection, [row(1, b"x" * 100, header=b"x" * 10)], Head.of(connection))
    assert len(read(connection)) == 1


def test_times_that_are_no_times_count_for_nothing(connection: sqlite3.Connection) -> None:
    assert table.latest_time(connection, NOW) == NOW
    connection.execute("PRAGMA ignore_check_constraints = ON")
    table.insert(connection, [row(1)], Head.of(connection))
    connection.execute("UPDATE record SET ts = 'later', expires = 'never'")
    assert table.latest_time(connection, NOW) == NOW
    assert table.next_due(connection, "headers_only") is None
    connection.execute("UPDATE record SET ts = 9e999")
    assert table.latest_time(connection, NOW) == NOW
