"""The benchmark of the terminal measures the screen as it is: it runs, and gives every figure."""

from __future__ import annotations

from pathlib import Path

from bench.terminal import make_board, measure_in_terminal
from tertulia.view.snapshot import write_snapshot


def test_a_short_run_gives_every_figure(tmp_path: Path) -> None:
    snapshot = tmp_path / "board.json"
    snapshot.write_bytes(write_snapshot(make_board(30)))
    figures = measure_in_terminal(snapshot, 40)
    assert set(figures) == {"token_ms", "written_kib_s", "rows", "first_paint_s", "open_s", "resident_mib"}
    assert all(figure > 0 for figure in figures.values())
