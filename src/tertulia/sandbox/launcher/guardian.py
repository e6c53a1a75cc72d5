"""The process above a launcher: it adopts whatever a killed launcher and killed keepers leave behind, and ends it.

Nothing in the kernel ends a tree of processes with the one that started it, outside a namespace. So three processes
stand above each command, and any one that is left ends the tree: its keeper, the launcher, the guardian. The guardian
is no child of the product, is in a session of its own and does nothing, so that whoever kills the product with all its
children, its group or its session does not meet it. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Container
from contextlib import suppress
from typing import NoReturn

from tertulia.sandbox.process_tree import children, descendants

_SET_CHILD_SUBREAPER = 36
_ROUND_S = 0.002
_ORDERLY_ROUNDS = 1000
"""How long keepers have to end by themselves: they also remove what their commands left."""
_ROUNDS_AFTER_A_KILL = 5
_NOT_OURS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From now on whoever loses its parent below this process becomes its child."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_guardian(line: int, gone: int, launch: Callable[[int, int], None]) -> NoReturn:
    """Have `launch(line, alive)` run in a child, and end all that is left below it when that child has ended.

    `alive` reads as ended when the guardian has. `gone` is told the two processes, and ends when nothing is left.
    """
    if os.fork():
        # Its parent is no longer the product.
        os._exit(0)
    adopt_orphans()
    alive, living = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.close(living)
        os.close(gone)
        launch(line, alive)
        os._exit(0)
    os.setsid()
    os.close(line)
    os.close(alive)
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        # The product may have been killed by now: then the launcher ends at once.
        os.write(gone, f"{os.getpid()} {launcher}\n".encode())
    while os.waitpid(-1, 0)[0] != launcher:
        pass
    os.close(living)
    _bury(_ORDERLY_ROUNDS)
    end_strays(())
    os._exit(0)


def end_strays(keep: Container[int]) -> None:
    """Kill the children of this process that are not to be kept, with all below them, until none is left.

    One that took on another user's rights cannot be killed by us, and is left.
    """
    beyond_us: set[int] = set()
    while strays := [pid for pid in children(os.getpid()) if pid not in keep and pid not in beyond_us]:
        for stray in strays:
            for pid in (stray, *(pid for pid, _ in descendants(stray))):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    beyond_us.add(pid)
        _bury(_ROUNDS_AFTER_A_KILL)


def _bury(rounds: int) -> None:
    """Wait for whoever ends meanwhile, unless the kernel does that; returns at once when there is nobody left."""
    with suppress(ChildProcessError):
        for _ in range(rounds):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(_ROUND_S)
