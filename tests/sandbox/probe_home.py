"""Runs inside a sandbox whose root is or has a user's home: tries to read and to change what is guarded there.

Standard library only. Called with a JSON object of places. Prints one JSON object: for each attempt whether it
succeeded. With `forever` it says that it is up and tries everything again and again until it is killed: the hostile
process beside.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPT_TIMEOUT_S = 5
AT_FDCWD, RENAME_EXCHANGE = -100, 2
RENAMEAT2 = 316 if os.uname().machine == "x86_64" else 276

Act = Callable[[], object]
"""Succeeds where it does not raise and does not return False."""


def exchange(one: Path, other: Path) -> None:
    if LIBC.syscall(RENAMEAT2, AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "refused")


def moved_and_back(path: Path) -> None:
    away = path.with_name(f"{path.name}-away-{os.getpid()}")
    path.rename(away)
    away.rename(path)


def appended(path: Path) -> None:
    # A change that can be seen, and that harms no later attempt.
    with path.open("a") as file:
        file.write("# was here\n")


def replaced(path: Path, room: Path) -> None:
    new = room / f"new-{os.getpid()}"
    new.write_bytes(path.read_bytes())
    new.replace(path)


def linked(path: Path, room: Path) -> None:
    os.link(path, room / f"linked-{os.getpid()}")


def taken_over(path: Path, room: Path) -> None:
    """Another directory in its place, and back."""
    mine = room / f"mine-{os.getpid()}"
    mine.mkdir()
    exchange(mine, path)
    exchange(mine, path)


def swapped_for_a_link(path: Path, room: Path) -> None:
    link = room / f"link-{os.getpid()}"
    link.symlink_to(room)
    exchange(link, path)
    exchange(link, path)


def made(path: Path) -> None:
    path.mkdir(parents=True)
    path.rmdir()


def written(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("was here")
    path.unlink()


def reading(at: Any) -> Iterator[tuple[str, Act]]:
    """What must read as empty, by every way that leads there."""
    canary, room = at["canary"].encode(), Path(at["room"])

    def through_a_link(path: Path) -> bool:
        link = room / f"way-{os.getpid()}-{path.name}"
        link.symlink_to(path)
        return canary in link.read_bytes()

    for name in at["secrets"]:
        path = Path(name)
        yield f"S9 read {name}", lambda path=path: canary in path.read_bytes()
        yield f"S9 read {name} from /proc", lambda name=name: canary in Path(f"/proc/self/root{name}").read_bytes()
        yield f"S9 read {name} through a link", lambda path=path: through_a_link(path)
        yield f"S9 link {name}", lambda path=path: linked(path, room)
    for name in at["ours"]:
        yield f"S1 list {name}", lambda name=name: bool(os.listdir(name))


def changing(at: Any) -> Iterator[tuple[str, Act]]:
    """What must stay as it is, and what must not come into being."""
    room = Path(at["room"])
    for name in at["ours"]:
        yield f"S1 plant in {name}", lambda name=name: written(Path(name) / "config.toml.d")
        yield f"S1 overwrite in {name}", lambda name=name: appended(Path(name) / "config.toml")
    for name in at["startup"]:
        path = Path(name)
        yield f"S1 append to {name}", lambda path=path: appended(path)
        yield f"S1 replace {name}", lambda path=path: replaced(path, room)
        yield f"S1 move {name}", lambda path=path: moved_and_back(path)
        yield f"S1 link {name}", lambda path=path: linked(path, room)
    for name in at["missing"]:
        yield f"S1 make the file {name}", lambda name=name: written(Path(name))
        yield f"S1 make the folder {name}", lambda name=name: made(Path(name))
    for name in at["parents"]:
        path = Path(name)
        yield f"S1 move {name}", lambda path=path: moved_and_back(path)
        yield f"S1 exchange {name}", lambda path=path: taken_over(path, room)
        yield f"S1 put a link for {name}", lambda path=path: swapped_for_a_link(path, room)


def tried(act: Act) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(ATTEMPT_TIMEOUT_S)
        try:
            os._exit(1 if act() is False else 0)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return status == 0


def main() -> None:
    at = json.loads(sys.argv[1])
    acts = dict([*reading(at), *changing(at)])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if at.get("forever"):
        sys.stdout.write("up\n")
        sys.stdout.flush()
        while True:
            for act in acts.values():
                tried(act)
    sys.stdout.write(json.dumps({name: tried(act) for name, act in acts.items()}))


if __name__ == "__main__":
    main()
