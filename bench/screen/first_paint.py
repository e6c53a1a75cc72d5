"""CPU time from the start of the program `tertulia` until its first frame stands, against that of `python -c pass`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.screen.pseudo_terminal import run_at_terminal

_TRIES = 5


def measure_first_paint(tries: int = _TRIES) -> dict[str, float]:
    """Seconds of both, the cheapest of several tries, and how many modules of the session had been imported."""
    bare = min(_bare_python() for _ in range(tries))
    with tempfile.TemporaryDirectory() as home:
        variables = {"TERTULIA_HOME": home, "HOME": home}
        arguments = ["-m", "bench.screen.first_paint", "0"]
        painted = [run_at_terminal(arguments, variables=variables) for _ in range(tries)]
    cheapest = min(one["cpu_s"] for one in painted)
    session = max(one["session_modules"] for one in painted)
    return {"bare_s": bare, "paint_s": cheapest, "ratio": cheapest / bare, "session_modules": session}


def measure_idle(seconds: float = 5.0) -> float:
    """The part of a processor, in percent, that the screen takes while nothing happens."""
    with tempfile.TemporaryDirectory() as home:
        variables = {"TERTULIA_HOME": home, "HOME": home}
        figures = run_at_terminal(["-m", "bench.screen.first_paint", str(seconds)], variables=variables)
    return figures["idle_s"] / seconds * 100


def _bare_python() -> float:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def _measure(seconds: float, result: Path) -> None:
    """The program itself, up to the moment at which it would load the session, and so long after it."""
    from tertulia.cli.main import main
    from tertulia.terminal.app import TerminalApp

    async def stop(self: TerminalApp) -> None:
        loaded = [name for name in sys.modules if name.startswith("tertulia.session.")]
        figures = {"cpu_s": time.process_time(), "session_modules": len(loaded)}
        if seconds:
            # What the first frames have left to do is no rest.
            await asyncio.sleep(1.0)
        before = time.process_time()
        await asyncio.sleep(seconds)
        result.write_text(json.dumps({**figures, "idle_s": time.process_time() - before}))
        self.exit()

    TerminalApp._run_session = stop
    main(["-m", "scripted/tour"])


if __name__ == "__main__":
    _measure(float(sys.argv[1]), Path(sys.argv[2]))
