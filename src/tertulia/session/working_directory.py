"""The directory that somebody wants to work in: it has to be there before anything begins in it."""

from __future__ import annotations

import os.path

from tertulia.errors import InvalidParamsError


def check_directory(asked: object) -> None:
    """InvalidParams where a path is named at which there is no directory.

    Only what a caller names now: a session of the past comes back though its directory is gone. Whether the path may be
    named at all is settled with the other terms.
    """
    if isinstance(asked, str) and os.path.isabs(asked) and not os.path.isdir(asked):
        raise InvalidParamsError(f"cwd: {asked!r:.200} is not a directory")
