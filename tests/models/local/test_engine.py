"""The process beside ours: who shares it, how it is asked, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tertulia.models.local import local_wire as engine_module
from tertulia.models.local.local_wire import Engine, EngineEndedError, shared_engine
from tests.models.local_staging import Stage, is_alive, staged
from tests.models.wire_contract import DEADLINE

WINDOW = 512


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path / "home", "answers") as stage:
        yield stage


@pytest.fixture
def engine(stage: Stage) -> Iterator[Engine]:
    engine = Engine(stage.file, WINDOW)
    yield engine
    engine.end()


class Holder:
    """Somebody."""


async def heard(engine: Engine, body: bytes = b"{}") -> list[bytes]:
    lines: list[bytes] = []
    async with asyncio.timeout(DEADLINE), engine.ask(body) as coming:
        while not lines or lines[-1] != b"[DONE]":
            lines.append(await coming.next())
    return lines


async def test_a_request_gets_lines_until_done(engine: Engine) -> None:
    lines = await heard(engine)
    assert len(lines) == 7
    assert b'"content": "One "' in lines[1]


async def test_it_starts_in_no_time_and_is_asked_before_it_has_loaded(engine: Engine, stage: Stage) -> None:
    assert engine.alive
    assert stage.pids == []
    await heard(engine)
    assert stage.pids == [engine.pid]


async def test_it_is_told_the_window(engine: Engine, stage: Stage) -> None:
    await heard(engine)
    assert stage.diary("started")[0]["n_ctx"] == WINDOW


async def test_a_large_body_arrives_whole(engine: Engine, stage: Stage) -> None:
    await heard(engine, b'{"text": "%b"}' % (b"x" * 4_000_000))
    assert len(stage.diary("asked")[0]["text"]) == 4_000_000


async def test_ended_it_cannot_be_asked(engine: Engine) -> None:
    await heard(engine)
    engine.end()
    engine.end()
    assert not engine.alive
    with pytest.raises(EngineEndedError):
        await heard(engine)
    assert await engine.exit_code() == -9


async def test_one_that_ends_while_it_is_listened_to(engine: Engine, stage: Stage) -> None:
    with pytest.raises(EngineEndedError):
        async with asyncio.timeout(DEADLINE), engine.ask(b"{}") as coming:
            await coming.next()
            engine.end()
            while True:
                await coming.next()


async def test_a_line_without_an_end_counts_as_none(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_LONGEST_LINE", 10)
    with pytest.raises(EngineEndedError):
        await heard(engine)


async def test_one_that_lives_is_ended_by_asking_for_its_exit_code(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_STOP_S", 0.01)
    async with asyncio.timeout(DEADLINE):
        assert await engine.exit_code() == -9
    assert not engine.alive


def test_there_is_one_for_a_file_and_another_for_another(tmp_path: Path) -> None:
    one, same, other = (shared_engine(tmp_path / name, WINDOW) for name in "aab")
    assert one is same
    assert other is not one
    engine = one.running()
    assert one.running() is engine
    engine.end()
    again = one.running()
    assert again is not engine
    again.end()


def test_it_lives_until_the_last_holder_has_let_go(tmp_path: Path) -> None:
    shared = shared_engine(tmp_path / "a", WINDOW)
    first, second, third = Holder(), Holder(), Holder()
    shared.hold(first)
    shared.hold(second)
    shared.hold(third)
    engine = shared.running()
    shared.let_go(first)
    shared.let_go(first)
    del third
    assert engine.end.alive
    shared.let_go(second)
    assert not engine.end.alive
    assert not engine.alive


def test_it_ends_when_it_is_forgotten_altogether(tmp_path: Path) -> None:
    shared = shared_engine(tmp_path / "a", WINDOW)
    pid = shared.running().pid
    del shared
    assert not is_alive(pid)


def test_what_was_never_started_can_be_let_go(tmp_path: Path) -> None:
    shared, holder = shared_engine(tmp_path / "a", WINDOW), Holder()
    shared.hold(holder)
    shared.let_go(holder)
    shared.let_go(holder)


def test_forgotten_it_ends(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "a", WINDOW)
    pid = engine.pid
    del engine
    assert not is_alive(pid)
