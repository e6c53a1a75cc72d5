"""One process of a peer: it gets one request, and gives a report or dies with a reason."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compare.environments import CHECKOUT, PeerEnvironment
from bench.compare.peers import PeerSpec

PEER_SIDE = Path(__file__).parent / "peer_side"
NO_FEATURE = "no such feature"

# Dummies for keys, and every switch for telemetry that a peer documents.
FIXED_VARIABLES = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "GEMINI_API_KEY": "none",
    "GOOGLE_API_KEY": "none",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "none",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONHASHSEED": "0",
}


class PeerError(Exception):
    """The peer did not do its work; the text is a sentence."""


@dataclass(frozen=True)
class PeerRequest:
    """What a peer is asked to do, and where the provider is."""

    work: str
    sizes: Mapping[str, Any]
    url: str
    word: str
    """A word that only the MCP servers of this process have in their command."""


def run_peer(spec: PeerSpec, environment: PeerEnvironment, request: PeerRequest, timeout_s: float) -> dict[str, float]:
    """The figures of a work. A `PeerError` says why there are none."""
    server = [sys.executable, "-I", "-S", str(Path(__file__).parent / "mcp_server.py"), request.word]
    line = json.dumps(
        {"work": request.work, "sizes": request.sizes, "url": request.url, "mcp_command": server,
         "variant": spec.variant}
    )  # fmt: skip
    refused = _refused_hosts(request.url)
    # Not all of what a peer leaves behind is gone when it has ended.
    with tempfile.TemporaryDirectory(prefix="compare-", ignore_cleanup_errors=True) as home:
        command = [str(environment.python), "-P", str(spec.path / "program.py")]
        variables = peer_variables(request.url, Path(home), environment)
        folder = Path(home) / "project"
        folder.mkdir()
        out = _communicate(command, line + "\n", variables, folder, timeout_s)
    try:
        report = json.loads(out)
    except ValueError:
        raise PeerError(f"It failed: its report is no JSON: {out[:100]!r}") from None
    hosts = [*report["refused"], *_refused_hosts(request.url)[len(refused) :]]
    if hosts:
        raise PeerError(f"It tried to reach {', '.join(hosts)}: peers may use the loopback only.")
    if "missing" in report:
        raise PeerError(f"{NO_FEATURE}: {report['missing']}" if report["missing"] else NO_FEATURE)
    return report["figures"]


def _refused_hosts(url: str) -> list[str]:
    """The hosts that the provider was asked for as of a proxy, since it began."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{url}/control/refused") as answer:
        return answer.read().decode().split()


def peer_variables(url: str, home: Path, environment: PeerEnvironment) -> dict[str, str]:
    """The environment of a peer: nothing of the user's but the path, and a proxy that refuses and counts."""
    proxies = {name: url for plain in ("http_proxy", "https_proxy", "all_proxy") for name in (plain, plain.upper())}
    own = {"HOME": str(home), "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    paths = {"PYTHONPATH": str(PEER_SIDE), "PATH": os.environ["PATH"], "PEER_PACKAGES": str(environment.packages)}
    return {**FIXED_VARIABLES, **proxies, **own, **paths, "LANG": "C.UTF-8"}


def _communicate(command: list[str], text: str, variables: dict[str, str], folder: Path, timeout_s: float) -> str:
    pipe = subprocess.PIPE
    # A session of its own, so that what it leaves behind ends with it.
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=variables, cwd=folder, start_new_session=True
    )
    try:
        out, problems = process.communicate(text, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise PeerError(f"It was not done after {timeout_s:.0f} s.") from None
    finally:
        _end(process)
    if process.returncode or not out:
        raise PeerError(failure_sentence(problems, process.returncode))
    return out


def failure_sentence(problems: str, code: int) -> str:
    """The last line of a traceback that names an exception, else the last line."""
    lines = [line.strip(" |+-") for line in problems.splitlines() if line.strip(" |+-")]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Timeout|Exit)\b", line)]
    line = (named or lines or [f"exit code {code}"])[-1]
    return f"It failed: {line.replace(str(CHECKOUT), '…')}"[:300]


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
