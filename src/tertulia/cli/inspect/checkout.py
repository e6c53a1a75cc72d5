"""Where the benchmarks of a source checkout are."""

from __future__ import annotations

from pathlib import Path

import click


def find_benchmarks(source: Path) -> Path:
    """The folder `bench` of the checkout that this source file belongs to; a usage error where there is none."""
    checkout = source.parents[4]
    folder = checkout / "bench"
    if not (folder.is_dir() and (checkout / "pyproject.toml").is_file()):
        raise click.UsageError("benchmarks come with a source checkout, and this is an installed package")
    return folder
