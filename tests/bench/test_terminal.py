"""The benchmark of the terminal measures the screen as it is: it runs, and gives every figure."""

from __future__ import annotations

from pathlib import Path

from bench.screen.first_paint import measure_first_paint
from bench.screen.storm import measure_storm
from bench.terminal import make_board, measure_in_terminal
from tertulia.view.snapshot import write_snapshot


def test_a_short_run_gives_every_figure(tmp_path: Path) -> None:
    snapshot = tmp_path / "board.json"
    snapshot.write_bytes(write_snapshot(make_board(30)))
    figures = measure_in_terminal(snapshot, 40)
    assert set(figures) == {"token_ms", "written_kib_s", "rows", "first_paint_s", "open_s", "resident_mib"}
    assert all(figure > 0 for figure in figures.values())


def test_in_a_short_storm_every_key_is_seen_and_memory_stays() -> None:
    """Issue 22, speed: the CPU from a key to its frame, which no other program adds to."""
    figures = measure_storm(1_000)
    assert figures["keys"] >= 22
    assert 0 < figures["key_cpu_p99_ms"] <= 50
    assert figures["grown_mib"] <= 4


def test_the_first_frame_stands_before_the_session_is_imported() -> None:
    """Issue 22, speed; UI.md 4.9."""
    figures = measure_first_paint(1)
    assert figures["session_modules"] == 0
    assert figures["ratio"] > 1
