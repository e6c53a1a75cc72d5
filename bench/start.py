"""What a start costs: the program, the import of the package and of its names, and `exec` until it sends a request.

All take turns in one run, each in a process of its own, and are held against a bare interpreter that does nothing. The
modules are compiled before: Python keeps that, unless PYTHONDONTWRITEBYTECODE says otherwise, which is left out here.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial

Row = tuple[str, float, str, str]

ROUNDS = 15
WAIT_S = 60.0
BARE = "a bare interpreter"
NAMES = "import tertulia\nfor name in tertulia.__all__: getattr(tertulia, name)"
PROGRAMS = {
    BARE: ("-c", "pass"),
    "tertulia --version": ("-m", "tertulia", "--version"),
    "import tertulia": ("-c", "import tertulia"),
    "import of all public names": ("-c", NAMES),
    "import aiohttp": ("-c", "import aiohttp"),
}
FIRST_REQUEST = "exec, until its request is sent"
TARGETS = {"tertulia --version": "<= 2", FIRST_REQUEST: "<= 25"}
NAMES_TARGET_MS = 120


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    folder = tempfile.mkdtemp(prefix="bench-")
    try:
        with socket.create_server(("127.0.0.1", 0)) as provider:
            provider.settimeout(WAIT_S)
            return _rows(_rounds(_starts(provider, folder)))
    finally:
        shutil.rmtree(folder)


def _environment(folder: str, port: int) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": os.path.join(folder, "home"),
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled"),
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
    }


def _starts(provider: socket.socket, folder: str) -> dict[str, Callable[[], float]]:
    """What each takes, in seconds."""
    environment = _environment(folder, provider.getsockname()[1])
    workspace = os.path.join(folder, "workspace")
    os.mkdir(workspace)

    def program(arguments: tuple[str, ...]) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    def first_request() -> float:
        line = [sys.executable, "-m", "tertulia", "exec", "-m", "openai/none", "hi"]
        nothing = subprocess.DEVNULL
        began = time.perf_counter()
        started = subprocess.Popen(line, env=environment, cwd=workspace, stdin=nothing, stdout=nothing, stderr=nothing)
        try:
            connection, _ = provider.accept()
            with connection:
                connection.recv(1)
                return time.perf_counter() - began
        finally:
            started.kill()
            started.wait()

    starts = {name: partial(program, arguments) for name, arguments in PROGRAMS.items()}
    return {**starts, FIRST_REQUEST: first_request}


def _rounds(starts: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    for start in starts.values():
        start()
    taken: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(ROUNDS):
        for name, start in starts.items():
            taken[name].append(start())
    return taken


def _rows(taken: Mapping[str, list[float]]) -> list[Row]:
    """Each in milliseconds; then as a multiple of the bare interpreter of the same round, the median of these."""
    bare = taken[BARE]
    rows: list[Row] = [(name, statistics.median(times) * 1e3, "ms", "") for name, times in taken.items()]
    more = [time - least for time, least in zip(taken["import of all public names"], bare, strict=True)]
    rows.append((f"all public names, over {BARE}", statistics.median(more) * 1e3, "ms", f"<= {NAMES_TARGET_MS}"))
    for name, times in taken.items():
        if name != BARE:
            ratios = [time / least for time, least in zip(times, bare, strict=True)]
            rows.append((f"{name} : {BARE}", statistics.median(ratios), "x", TARGETS.get(name, "")))
    return rows
