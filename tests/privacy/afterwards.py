"""Everything that is done with homes afterwards: listed, shown, exported, replayed, forked, resumed. Run as a program.

Each line of standard input is FOLDER and SESSION. What the commands print goes into files of that folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tertulia.cli.main import main

COMMANDS = (
    *("sessions ls --json", "sessions ls", "sessions show ID", "sessions show ID --json", "sessions export ID"),
    *(
        "sessions replay ID",
        "sessions replay ID --verify",
        "exec resume -m scripted/tour ID hello",
        "resume ID -m scripted/tour",
        "sessions ls --all",
    ),
    *("sessions fork ID", "sessions export ID", "sessions sweep", "sessions ls --search x", "doctor"),
)


def run(folder: Path, session_id: str) -> None:
    """All of it, one after the other."""
    for name, value in {"TERTULIA_HOME": "home", "HOME": "home-of-user", "TMPDIR": "tmp"}.items():
        os.environ[name] = str(folder / value)
    os.chdir(folder / "user")
    for number, command in enumerate(COMMANDS):
        with _into(folder / f"said-{number}"):
            code = main([session_id if word == "ID" else word for word in command.split()])
            sys.stdout.write(f"{command}: {code}\n")


@contextlib.contextmanager
def _into(path: Path) -> Iterator[None]:
    with (
        io.TextIOWrapper(path.open("wb"), write_through=True) as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        yield


if __name__ == "__main__":
    for line in sys.stdin:
        folder, session_id = line.rstrip("\n").split("\t")
        run(Path(folder), session_id)
