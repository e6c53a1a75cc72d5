"""What a server offers, as it last said."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tertulia.errors import McpError
from tertulia.mcp.client.tool_listing import Toolset
from tertulia.mcp.pool.tool_cache import MAX_BYTES, MIN_INTERVAL_S, MIN_TTL_S, RelistSchedule, ToolCache, ToolDiskCache
from tertulia.mcp.server_connection import RemoteTool, ToolHints
from tertulia.scheduler.nursery import Nursery
from tertulia.testing import FakeClock
from tertulia.testing.fake_mcp_server import FakeGate, FakeMcpConnection, FakeMcpServer, fake_tool
from tests.mcp.virtual_time import LoopClock, in_virtual_time, steps
from tests.tables import each_row

ONE, TWO = fake_tool("one"), fake_tool("two")


def connection(server: FakeMcpServer) -> FakeMcpConnection:
    return FakeMcpConnection(server, lambda: None)


async def test_the_first_listing_makes_it_known() -> None:
    clock = FakeClock()
    cache = ToolCache(clock, None, None)
    assert (cache.was_listed, cache.toolset.tools, cache.revision, cache.latency_ms) == (False, (), 0, None)
    clock.advance(2.5)
    assert await cache.take(connection(FakeMcpServer([TWO, ONE])), 0.0)
    assert (cache.was_listed, cache.toolset.tools, cache.revision, cache.latency_ms) == (True, (ONE, TWO), 1, 2500)
    assert (cache.find("one"), cache.find("three")) == (ONE, None)


async def test_a_server_without_tools_is_known_too() -> None:
    cache = ToolCache(FakeClock(), None, None)
    assert not await cache.take(connection(FakeMcpServer()), 0.0)
    assert cache.was_listed


async def test_the_same_list_again_changes_nothing_at_all() -> None:
    server, cache = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await cache.take(connection(server), 0.0)
    before = cache.toolset
    server.tools = (fake_tool("one"),)
    assert not await cache.take(connection(server), 0.0)
    assert cache.toolset is before
    assert cache.revision == 1


async def test_a_listing_that_fails_keeps_what_was_known() -> None:
    """X-23."""
    server, cache = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await cache.take(connection(server), 0.0)
    server.tools = (TWO,)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await cache.take(connection(server), 0.0)
    assert (cache.toolset.tools, cache.revision) == ((ONE,), 1)


async def test_what_was_known_from_an_earlier_run_is_offered_until_the_server_says_otherwise() -> None:
    known = Toolset.of([ONE])
    cache = ToolCache(FakeClock(), known, None)
    assert (cache.was_listed, cache.toolset, cache.find("one")) == (True, known, ONE)
    assert not await cache.take(connection(FakeMcpServer([ONE])), 0.0)
    assert await cache.take(connection(FakeMcpServer([TWO])), 0.0)
    assert cache.revision == 1


async def test_only_warnings_that_change_make_no_new_revision() -> None:
    server, cache = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await cache.take(connection(server), 0.0)
    server.tools = (ONE, ONE)
    assert await cache.take(connection(server), 0.0)
    assert cache.toolset.warnings
    assert cache.revision == 1


async def test_it_is_stale_when_the_time_is_over_that_the_server_gave() -> None:
    """X-23: ttlMs."""
    clock = FakeClock()
    cache = ToolCache(clock, None, None)
    assert not cache.is_stale(clock.monotonic())
    await cache.take(connection(FakeMcpServer([ONE], ttl_s=60)), 0.0)
    clock.advance(59)
    assert not cache.is_stale(clock.monotonic())
    clock.advance(1)
    assert cache.is_stale(clock.monotonic())


async def test_a_failed_listing_puts_off_the_next_one_as_well() -> None:
    clock, server = FakeClock(), FakeMcpServer([ONE], ttl_s=60)
    cache = ToolCache(clock, None, None)
    await cache.take(connection(server), 0.0)
    clock.advance(60)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await cache.take(connection(server), 0.0)
    assert not cache.is_stale(clock.monotonic())


async def test_a_list_that_holds_for_no_time_is_not_asked_for_all_the_time() -> None:
    clock = FakeClock()
    cache = ToolCache(clock, None, None)
    await cache.take(connection(FakeMcpServer([ONE], ttl_s=0)), 0.0)
    assert not cache.is_stale(clock.monotonic())
    clock.advance(MIN_TTL_S)
    assert cache.is_stale(clock.monotonic())


async def test_a_list_without_a_time_holds_until_the_server_says_otherwise() -> None:
    clock = FakeClock()
    cache = ToolCache(clock, None, None)
    await cache.take(connection(FakeMcpServer([ONE])), 0.0)
    clock.advance(1e9)
    assert not cache.is_stale(clock.monotonic())


async def test_what_is_new_is_written_down_once() -> None:
    written: list[Toolset] = []
    server, cache = FakeMcpServer([ONE]), ToolCache(FakeClock(), Toolset.of([ONE]), written.append)
    await cache.take(connection(server), 0.0)
    await cache.write_down()
    assert written == []
    server.tools = (TWO,)
    await cache.take(connection(server), 0.0)
    await asyncio.gather(cache.write_down(), cache.write_down())
    assert written == [Toolset.of([TWO])]


async def test_without_a_place_nothing_is_written_down() -> None:
    cache = ToolCache(FakeClock(), None, None)
    await cache.take(connection(FakeMcpServer([ONE])), 0.0)
    await cache.write_down()


# ---- what a lazy server listed when it last ran


KEY, OTHER = "a" * 64, "b" * 64
TOOLS = Toolset.of(
    [
        RemoteTool("read", "Reads.", {"type": "object", "properties": {"path": {}}}, "Read", ToolHints(read_only=True)),
        RemoteTool("write", "Writes.", {"type": "object"}),
    ]
)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    return tmp_path / "mcp-catalogue" / f"{KEY}.json"


def test_what_was_kept_is_recalled_under_its_key_and_no_other(tmp_path: Path) -> None:
    catalogue = ToolDiskCache(tmp_path)
    assert catalogue.recall(KEY) is None
    catalogue.keep(KEY, TOOLS)
    assert catalogue.recall(KEY) == TOOLS
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS
    assert catalogue.recall(OTHER) is None


def test_only_its_owner_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ToolDiskCache(tmp_path / "home").keep(KEY, TOOLS)
    finally:
        os.umask(before)
    folder = tmp_path / "home" / "mcp-catalogue"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [f"{KEY}.json"]
    assert (folder / f"{KEY}.json").stat().st_mode & 0o777 == 0o600


def test_the_next_list_takes_the_place_of_the_last(tmp_path: Path) -> None:
    catalogue, fewer = ToolDiskCache(tmp_path), Toolset.of(TOOLS.tools[:1])
    catalogue.keep(KEY, TOOLS)
    catalogue.keep(KEY, fewer)
    assert catalogue.recall(KEY) == fewer
    assert len(list((tmp_path / "mcp-catalogue").iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"version":1}', b"[" * 200_000, b"null"])
def test_a_corrupt_file_is_as_good_as_none(tmp_path: Path, page: Path, content: bytes) -> None:
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS
    page.write_bytes(content)
    assert ToolDiskCache(tmp_path).recall(KEY) is None
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS


def test_every_cut_of_the_file_is_as_good_as_none(tmp_path: Path, page: Path) -> None:
    whole = page.read_bytes()
    for length in range(len(whole)):
        page.write_bytes(whole[:length])
        assert ToolDiskCache(tmp_path).recall(KEY) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 2), ("key", OTHER), ("digest", "0" * 64), ("tools", []), ("more", 1), ("tools", [{"name": 1}])],
)
def test_a_file_that_does_not_agree_with_itself_is_not_believed(
    tmp_path: Path, page: Path, field: str, value: object
) -> None:
    """C1: whoever edits a description in it does not put words before the model."""
    content = msgspec.json.decode(page.read_bytes())
    page.write_bytes(msgspec.json.encode({**content, field: value}))
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_file_of_another_key_cannot_be_put_in_its_place(tmp_path: Path, page: Path) -> None:
    page.rename(page.with_name(f"{OTHER}.json"))
    assert ToolDiskCache(tmp_path).recall(OTHER) is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, page: Path) -> None:
    page.write_bytes(page.read_bytes() + b" " * MAX_BYTES)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_list_that_is_too_large_is_not_written(tmp_path: Path) -> None:
    many = [RemoteTool(f"t{number}", "x" * 10_000, {"type": "object"}) for number in range(300)]
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(KEY, Toolset.of(many))
    assert catalogue.recall(KEY) is None
    assert not (tmp_path / "mcp-catalogue").exists()


def test_a_link_is_not_followed_to_be_read(tmp_path: Path, page: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    page.rename(elsewhere)
    page.symlink_to(elsewhere)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path, page: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    page.unlink()
    page.symlink_to(victim)
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert victim.read_text() == "mine"
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS


def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path, page: Path) -> None:
    page.unlink()
    os.mkfifo(page)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_file_that_others_can_write_is_not_believed(tmp_path: Path, page: Path) -> None:
    page.chmod(0o666)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


@pytest.mark.parametrize("key", ["", "../" + "a" * 61, "A" * 64, "a" * 63])
def test_what_is_no_key_never_becomes_a_path(tmp_path: Path, key: str) -> None:
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(key, TOOLS)
    assert catalogue.recall(key) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_logged_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mcp-catalogue").write_text("in the way")
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(KEY, TOOLS)
    assert "could not be kept" in caplog.text
    assert catalogue.recall(KEY) is None


def test_a_folder_that_is_a_link_is_not_written_into(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mcp-catalogue").symlink_to(elsewhere)
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert list(elsewhere.iterdir()) == []


# ---- when a server is asked again what it offers


class Scene:
    """Listings as they happen."""

    def __init__(self, *, begun: bool = True) -> None:
        self.nursery = Nursery()
        self.gate = FakeGate()
        self.times: list[float] = []
        self.at_once = 0
        self.error: McpError | None = None
        self.relisting = RelistSchedule(self.nursery.start, LoopClock(), "fs")
        if begun:
            self.relisting.begin(self.list_again)

    async def list_again(self) -> McpError | None:
        self.times.append(asyncio.get_running_loop().time())
        self.at_once += 1
        assert self.at_once == 1
        try:
            await self.gate.passed()
        finally:
            self.at_once -= 1
        return self.error


@in_virtual_time
async def test_a_storm_of_notices_costs_one_listing_every_fifth_of_a_second() -> None:
    scene = Scene()
    began = asyncio.get_running_loop().time()
    for _ in range(1_000):
        for _ in range(100):
            scene.relisting.want()
        await asyncio.sleep(0.001)
    await asyncio.sleep(10)
    gaps = [after - before for before, after in zip([began, *scene.times], scene.times, strict=False)]
    assert len(scene.times) == 5
    assert gaps == pytest.approx([MIN_INTERVAL_S] * 5, abs=0.002)
    assert len(scene.nursery) == 0


@in_virtual_time
async def test_notices_during_a_listing_make_one_more() -> None:
    scene = Scene()
    scene.gate.shut()
    scene.relisting.want()
    await scene.gate.until_reached()
    for _ in range(100):
        scene.relisting.want()
    await asyncio.sleep(5)
    assert len(scene.times) == 1
    scene.gate.open()
    await asyncio.sleep(5)
    assert len(scene.times) == 2


@in_virtual_time
async def test_who_asks_is_answered_at_once_even_while_a_notice_waits() -> None:
    scene = Scene()
    began = asyncio.get_running_loop().time()
    scene.relisting.want()
    await steps()
    assert scene.times == []
    await scene.relisting.now()
    assert scene.times == [began]
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_after_somebody_asked_a_storm_is_held_back_as_before() -> None:
    scene = Scene()
    await scene.relisting.now()
    for _ in range(100):
        scene.relisting.want()
        await asyncio.sleep(0.01)
    await asyncio.sleep(5)
    assert len(scene.times) == 6


@in_virtual_time
async def test_who_asks_during_a_listing_waits_for_the_next_one() -> None:
    """The one under way may have begun before the change that is asked for."""
    scene = Scene()
    scene.gate.shut()
    first = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    others = [asyncio.create_task(scene.relisting.now()) for _ in range(50)]
    await steps()
    scene.gate.open()
    await first
    await asyncio.gather(*others)
    assert len(scene.times) == 2


@in_virtual_time
async def test_an_error_reaches_all_who_asked_and_not_those_who_ask_later() -> None:
    scene = Scene()
    scene.error = McpError("no list today", hint=1)
    outcomes = await asyncio.gather(*(scene.relisting.now() for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no list today"] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    scene.error = None
    await scene.relisting.now()


@in_virtual_time
async def test_a_notice_before_the_beginning_is_kept_for_after_it() -> None:
    scene = Scene(begun=False)
    scene.relisting.want()
    await asyncio.sleep(5)
    assert scene.times == []
    with pytest.raises(McpError):
        await scene.relisting.now()
    scene.relisting.begin(scene.list_again)
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_the_end_of_the_connection_answers_whoever_waits_and_refuses_who_comes_later() -> None:
    scene = Scene()
    scene.gate.shut()
    under_way = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    queued = asyncio.create_task(scene.relisting.now())
    await steps()
    scene.relisting.stop()
    outcomes = await asyncio.gather(under_way, queued, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [McpError, McpError]
    with pytest.raises(McpError, match="the connection ended"):
        await scene.relisting.now()
    scene.relisting.want()
    await asyncio.sleep(5)
    assert len(scene.times) == 1
    assert len(scene.nursery) == 0


@in_virtual_time
async def test_tasks_ended_from_outside_leave_nobody_waiting_and_nothing_begins_again() -> None:
    scene = Scene()
    scene.gate.shut()
    waiting = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    scene.relisting.want()
    assert await scene.nursery.close(1) == 0
    with pytest.raises(McpError):
        await waiting
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_a_notice_in_the_last_step_of_a_listing_is_not_lost() -> None:
    """Between the last look and the end of the task."""
    for step in range(10):
        scene = Scene()
        scene.relisting.want()
        await asyncio.sleep(MIN_INTERVAL_S - 0.01)
        scene.gate.shut()
        await scene.gate.until_reached()
        scene.gate.open()
        await steps(step)
        scene.relisting.want()
        await asyncio.sleep(5)
        assert len(scene.times) == 2, step


@each_row("step", range(12))
def test_who_asked_may_leave_at_any_step(step: int) -> None:
    """H1: the others get their answer."""

    @in_virtual_time
    async def play() -> None:
        scene = Scene()
        leaving, staying = (asyncio.create_task(scene.relisting.now()) for _ in range(2))
        await steps(step)
        leaving.cancel()
        await staying
        await asyncio.wait({leaving})
        assert len(scene.times) == 1
        await steps()
        assert len(scene.nursery) == 0

    play()
