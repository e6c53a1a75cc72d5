"""The referee: who does which work when, and what came of it.

In each round all peers do a work one after the other, and each round begins with another of them, so that a busy moment
of the machine meets all alike. A peer that fails is not tried again at that work, and the run goes on. One that takes
longer than a minute does less of that work in the rounds that follow, or none of it, and the report says which figures
are of one round.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.compare.environments import CHECKOUT, InstallError, PeerEnvironment, installed_bytes
from bench.compare.peer_process import NO_FEATURE, PeerError, PeerRequest, peer_variables, run_peer
from bench.compare.peers import LEAST, PeerSpec
from bench.compare.results import Cell, Comparison, PeerLine, Samples, WorkTable
from bench.compare.works import Work

CELL_S = 300.0
LONG_S = 60.0
"""What takes a peer longer than this by the clock is done once, or less of it: a run must end within about an hour."""
Progress = Callable[[int, int, str], None]
"""Takes how much is done, of how much, and what is next."""
Interim = Callable[[Comparison], None]
"""Takes what there is after each work: a run of hours may end in a way that nothing can be done about."""


@dataclass(frozen=True)
class Plan:
    """What is to be compared."""

    peers: Sequence[PeerSpec]
    works: Sequence[Work]
    rounds: int
    is_quick: bool
    prepare: Callable[[PeerSpec], PeerEnvironment]


@dataclass
class Referee:
    """One run."""

    plan: Plan
    progress: Progress
    interim: Interim = lambda found: None
    _environments: dict[str, PeerEnvironment] = field(default_factory=dict)
    _absent: dict[str, str] = field(default_factory=dict)
    _done: int = 0

    def run(self) -> Comparison:
        """Install, measure, and put together."""
        for spec in self.plan.peers:
            self._step(f"installing {spec.title}")
            try:
                self._environments[spec.name] = self.plan.prepare(spec)
            except InstallError as error:
                self._absent[spec.name] = str(error)
        samples = {work.id: Samples(notes=dict(self._absent)) for work in self.plan.works}
        is_stopped = False
        with provider() as url:
            try:
                self._measure_all(samples, url)
            except KeyboardInterrupt:
                # Hours may have passed: what there is by now is shown.
                is_stopped = True
        return self._comparison(samples, is_stopped=is_stopped)

    def _measure_all(self, samples: Mapping[str, Samples], url: str) -> None:
        for number in range(self.plan.rounds):
            for work in self.plan.works:
                for spec in _rotated(self.plan.peers, number):
                    self._step(f"{work.id} {spec.title}, round {number + 1} of {self.plan.rounds}")
                    self._measure(work, spec, number, samples[work.id], url)
                self.interim(self._comparison(samples, is_stopped=True))

    def _step(self, text: str) -> None:
        whole = len(self.plan.peers) * (1 + len(self.plan.works) * self.plan.rounds)
        self.progress(self._done, whole, text)
        self._done += 1

    def _measure(self, work: Work, spec: PeerSpec, number: int, samples: Samples, url: str) -> None:
        if spec.name in samples.notes:
            return
        sizes = work.sizes(is_quick=self.plan.is_quick)
        if spec.name in samples.long:
            if work.again is None:
                return
            sizes = work.again
        environment = self._environments[spec.name]
        request = PeerRequest(work.id, sizes, url, f"compare-{os.getpid()}-{self._done}")
        began = time.monotonic()
        try:
            if work.id == "W4":
                figures = _installation(spec, environment, url, sizes["times"])
            else:
                figures = run_peer(spec, environment, request, CELL_S + sizes.get("budget_s", 0))
        except PeerError as error:
            samples.notes[spec.name] = str(error)
            samples.figures.pop(spec.name, None)
        else:
            samples.add(spec.name, number, figures)
            if time.monotonic() - began > LONG_S:
                samples.long.add(spec.name)

    def _comparison(self, samples: Mapping[str, Samples], *, is_stopped: bool) -> Comparison:
        lines = tuple(
            PeerLine(
                spec.name,
                spec.title,
                self._environments[spec.name].version if spec.name in self._environments else "",
                self._absent.get(spec.name, ""),
            )
            for spec in self.plan.peers
        )
        works = tuple(self._table(work, samples[work.id]) for work in self.plan.works)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        return Comparison(
            now, machine(), self.plan.is_quick, self.plan.rounds, LEAST, lines, works, is_stopped=is_stopped
        )

    def _table(self, work: Work, samples: Samples) -> WorkTable:
        metrics = work.metrics(work.sizes(is_quick=self.plan.is_quick))
        programs = [spec.name for spec in self.plan.peers if spec.npm and work.id == "W4"]
        notes = {**dict.fromkeys(programs, f"{NO_FEATURE}: it is a program and cannot be imported"), **samples.notes}
        # A copy: this may be one of several looks while it goes on.
        samples = replace(samples, notes=notes)
        cells: dict[str, dict[str, Cell]] = {
            spec.name: {metric.name: samples.cell(spec.name, metric, LEAST) for metric in metrics}
            for spec in self.plan.peers
        }
        return WorkTable(work.id, work.title, work.description, metrics, cells)


@contextmanager
def provider() -> Iterator[str]:
    """The mock provider as a process of its own; gives its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.compare.provider"],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,  # Ctrl-C is for the referee, which ends it by closing its input
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        assert process.stdin is not None
        process.stdin.close()


def machine() -> dict[str, str]:
    """The class of the machine: a figure means little without it."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def _lines(path: str) -> Sequence[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _rotated(peers: Sequence[PeerSpec], number: int) -> Sequence[PeerSpec]:
    start = number % len(peers)
    return (*peers[start:], *peers[:start])


def _installation(spec: PeerSpec, environment: PeerEnvironment, url: str, times: int) -> dict[str, float]:
    installed = {
        "installed": installed_bytes(environment.packages) / 2**20,
        "dependencies": float(environment.count),
    }
    if spec.npm:
        return installed
    variables = peer_variables(url, Path("/nonexistent"), environment)

    def best(code: str) -> float:
        return min(_cpu_s([str(environment.python), "-P", "-c", code], variables) for _ in range(times + 1))

    return {"import": (best(spec.imports) - best("pass")) * 1e3, **installed}


def _cpu_s(command: Sequence[str], variables: Mapping[str, str]) -> float:
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    problems = process.stderr.read()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise PeerError(f"It failed: {(problems.splitlines() or ['no reason was given'])[-1]}"[:300])
    return used.ru_utime + used.ru_stime
