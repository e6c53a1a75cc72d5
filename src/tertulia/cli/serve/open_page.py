"""Opens the dashboard in a browser, and finds the server that runs already. The token is in no command line."""

from __future__ import annotations

import html
import os
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tertulia.policy.file_lock import lock, try_lock

_FOLDER = "servers"
_MAX_BYTES = 4096
REMOVED_AFTER_S = 20.0
"""How long a browser may take to read the file that leads to the page."""
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>Tertulia</title>
<meta http-equiv="refresh" content="0;url={address}">
<p><a href="{address}">The dashboard</a></p>
"""


def page_address(url: str, token: str) -> str:
    """The address of the page, with the token where no server and no other page sees it."""
    return f"{url}/#token={token}"


@contextmanager
def redirect_file(home: Path, address: str) -> Generator[Path]:
    """A file that only this user can read and that leads a browser to the address; removed in the end.

    A browser is started with the name of this file, so that the token is in no list of processes.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home / f"open-{os.urandom(8).hex()}.html"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(_REDIRECT.format(address=html.escape(address)))
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def start_browser(path: Path) -> bool:
    """Show the file in the user's browser; whether one could be started. It may block: call it in a thread."""
    return webbrowser.open(path.as_uri())


@contextmanager
def announced(home: Path, url: str) -> Generator[None]:
    """Say in a private folder that this process serves there, for as long as it lives: the file is locked."""
    folder = home / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}.url"
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        lock(number)
        os.ftruncate(number, 0)
        os.write(number, url.encode())
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(number)


def find_server(home: Path) -> str | None:
    """The address of a server of this user that runs now. Files of servers that have ended are removed."""
    with suppress(OSError):
        for path in sorted((home / _FOLDER).glob("*.url")):
            number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(number)
                if status.st_uid != os.getuid() or status.st_mode & 0o077:
                    continue
                # A living process holds the lock of its file: no other proof is as hard to fake.
                if not try_lock(number):
                    return os.read(number, _MAX_BYTES).decode()
                path.unlink(missing_ok=True)
            finally:
                os.close(number)
    return None
