"""The file that a page is written to at the end of long work: a place that cannot be written is refused before it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class PagePath(click.Path):
    """A file whose folder is there and can be written."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error where no file can be written there."""
        path = super().convert(value, param, ctx)
        folder = Path(os.fsdecode(path)).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            self.fail(f"{folder} is no folder that can be written; name another place", param, ctx)
        return path
