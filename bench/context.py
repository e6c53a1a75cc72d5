"""What it costs to prepare an agent's context, and what live tokens cost everybody else."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable

from tertulia.context.injector import SessionContextInjector
from tertulia.context.providers.canvas import CanvasContextProvider
from tertulia.context.providers.identity import CoreContextProvider
from tertulia.context.providers.skills import SkillsContextProvider
from tertulia.context.providers.workspace import WorkspaceContextProvider
from tertulia.context.templates import render_template
from tertulia.context.tokens import SessionTokenStore
from tertulia.policy.redaction import Redactor

ROUNDS = 200
EVENT = b'{"seq":12,"type":"tool_call_end","data":{"output":"' + b"drwxr-xr-x 2 user group 4096 notes.txt " * 6 + b'"}}'

Row = tuple[str, float, str, str]


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target)."""
    store = SessionTokenStore()
    tokens = [store.generate("ada", str(number)) for number in range(10_000)]
    template = "{{x}} and {{y}} " * 600_000
    return [
        ("prepare, four providers", asyncio.run(_prepare()), "ms", "<= 20"),
        ("a token looked up among 10,000", _each(lambda: store.validate(tokens[5_000])), "us", "<= 50"),
        *((f"an event redacted, {count} tokens", _redacting(count), "us", "<= 200") for count in (0, 1, 8, 1_000)),
        ("10 MB of template", _once(lambda: render_template(template, {"x": "1"})), "ms", "<= 5000"),
    ]


async def _prepare() -> float:
    with tempfile.TemporaryDirectory() as place:
        injector = SessionContextInjector()
        injector.set_token_store(SessionTokenStore())
        providers = CoreContextProvider(), CanvasContextProvider(), WorkspaceContextProvider(), SkillsContextProvider()
        for provider in providers:
            injector.register(provider)
        meta = {"archetype": "employee", "cwd": place}
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            await injector.prepare("ada", meta, "s1")
        return (time.perf_counter() - begin) / ROUNDS * 1e3


def _redacting(count: int) -> float:
    redactor = Redactor()
    store = SessionTokenStore(redactor=redactor)
    for number in range(count):
        store.generate("ada", str(number))
    return _each(lambda: redactor.json(EVENT))


def _each(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    for _ in range(ROUNDS * 50):
        act()
    return (time.perf_counter() - begin) / (ROUNDS * 50) * 1e6


def _once(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1e3


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:40} {value:14,.2f} {unit:14} {target}")
