"""What the page of the dashboard weighs, and how fast it is in headless chromium, over the real server.

The bars hold on a quiet machine: they are printed beside the figures, and none of them is a failure. The CPU time that
a figure took says what it would be there: that of the page and that of the server with all its threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, NamedTuple

from bench.page.publisher import make_busy_session
from tertulia.server.http.page_files import PageFiles
from tertulia.testing import ScriptedModel
from tests.server.served import TOKEN
from tests.web.browser import Browser, Page, started_browser, why_not
from tests.web.stage import staged

Row = tuple[str, float, str, str]
PAINTS, STEPS = 5, 10
_MIB = 1024 * 1024
_SETTLED_S = 2.0
"""What was read besides when a session was opened is there by then."""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
_WEIGHT = """performance.getEntriesByType('resource').filter((one) => one.name.startsWith(location.origin))
  .concat(performance.getEntriesByType('navigation')).reduce((sum, one) => sum + one.encodedBodySize, 0)"""
"""The bodies of all answers, as they came over the wire."""
_FRAMES = """async (seconds) => {
  const { app } = await import("/app_state.js");
  const feed = app.selected();
  const { take } = feed;
  let [frames, events] = [0, 0];
  feed.take = (event) => (events += 1, take.call(feed, event));
  const begun = performance.now();
  while (performance.now() - begun < seconds * 1000) {
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  feed.take = take;
  return { frames: frames / seconds, events: events / seconds };
}"""
_OPEN = """async (session) => {
  const begun = performance.now();
  location.hash = `#/s/${session}`;
  while (!document.querySelector(".transcript .assistant")) await new Promise((done) => setTimeout(done, 1));
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""
_LAST = """async (session_id) => {
  const { app } = await import("/app_state.js");
  return (await app.link.request("record/page", { session_id, limit: 1 })).last_n;
}"""
# Until the record is in the page and laid out.
_SCRUB = """async (places) => {
  const { app } = await import("/app_state.js");
  const taken = [];
  for (const n of places) {
    const begun = performance.now();
    app.go({ n: String(n) }, true);
    const shown = () => document.querySelector(".transcript")?.dataset.shown;
    while (shown() !== String(n)) await new Promise((done) => setTimeout(done, 0));
    const end = performance.now() + 0 * document.body.offsetHeight;
    taken.push(Math.max(end, performance.now()) - begun);
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  }
  return taken;
}"""


# From the approvals to the verdict about a request of a thousand items, with all its parts.
_PROMPT = """async (session_id) => {
  const { app } = await import("/app_state.js");
  const { requests } = await app.link.request("record/outline", { session_id });
  app.go({ n: String(requests[Math.min(requests.length - 1, 500)].n), panel: "approvals" });
  while (app.replay.shown !== Number(app.route.n)) await new Promise((done) => setTimeout(done, 5));
  // What is read ahead for the next steps is there by then.
  await new Promise((done) => setTimeout(done, 1000));
  const begun = performance.now();
  app.go({ panel: "prompt" }, true);
  while (!document.querySelector("#panel .verdict")) await new Promise((done) => setTimeout(done, 0));
  const parts = Number(/in ([0-9]+) parts/.exec(document.querySelector(".prompt-facts").textContent)[1]);
  return { taken: performance.now() - begun + 0 * document.body.offsetHeight, parts };
}"""
OBSERVERS = 50


class Busy(NamedTuple):
    """How much happens while the page is watched."""

    conversations: int = 1_000
    storm_events_s: int = 1_000
    storm_s: float = 4.0
    calm_events_s: int = 100
    calm_s: float = 10.0


def weight_rows() -> list[Row]:
    """All files of the page as they travel, each compressed for itself; also those of views that are opened later."""
    files = PageFiles()
    weight = sum(len(files.file(path).packed) for path in files.paths)
    return [(f"the page with all views, {len(files.paths)} files as sent", weight / 1000, "KB", "")]


async def browser_rows(session_id: str, busy: Busy) -> list[Row]:
    """Everything that needs a browser; nothing, and a line that says why, where there is none.

    Args:
        session_id: A long stored session.
        busy: What happens in another one.
    """
    if (reason := why_not()) is not None:
        print(f"  not measured in a browser: {reason}", flush=True)
        return []
    with started_browser() as browser:
        return [
            *await _paint_rows(browser),
            *await _record_rows(browser, session_id),
            *await _busy_rows(browser, busy),
            *await _sleeping_rows(browser, busy),
        ]


async def _spent(page: Page, work: Awaitable[Any]) -> tuple[Any, float]:
    """What came of it, and the milliseconds of CPU of page and server together."""
    before, begin = await page.cpu(), time.process_time()
    result = await work
    server = 1e3 * (time.process_time() - begin)
    return result, await page.cpu() - before + server


async def _paint_rows(browser: Browser) -> list[Row]:
    painted: list[float] = []
    costs: list[float] = []
    async with staged(browser, ScriptedModel([])) as stage:
        for _ in range(PAINTS):
            async with browser.page() as page:
                _, cost = await _spent(page, _opened(page, f"{stage.url}#token={TOKEN}"))
                painted.append(await page.run(_PAINT))
                costs.append(cost)
    return [
        ("first paint over loopback", median(painted), "ms (bar <= 300)", ""),
        ("the page until it lists sessions", median(costs), "ms CPU of page and server", ""),
    ]


async def _opened(page: Page, url: str) -> None:
    await page.open(url)
    await page.sees("text=New session")


async def _record_rows(browser: Browser, session_id: str) -> list[Row]:
    async with staged(browser, ScriptedModel([])) as stage, stage.page("&/") as page:
        await page.sees("main >> text=New session")
        opened, open_cost = await _spent(page, page.run(_OPEN, session_id))
        await page.sees(".lanes")
        last: int = await page.run(_LAST, session_id)
        middle = last // 2
        await page.run(_SCRUB, [middle])
        await page.sees("role=group[name='Replay']")
        await asyncio.sleep(_SETTLED_S)
        steps: list[float] = await page.run(_SCRUB, [middle + step for step in range(1, STEPS + 1)])
        back: list[float] = await page.run(_SCRUB, [middle + STEPS - step for step in range(1, STEPS + 1)])
        stride = max(1, middle // (STEPS + 1))
        jumps: list[float]
        jumps, jump_cost = await _spent(page, page.run(_SCRUB, [stride * step for step in range(1, STEPS + 1)]))
        prompt: dict[str, float] = await page.run(_PROMPT, session_id)
        async with stage.page(f"&/s/{session_id}") as opened_at_once:
            await opened_at_once.sees(".transcript .assistant")
            await opened_at_once.sees(".lanes")
            weight: int = await opened_at_once.run(_WEIGHT)
    return [
        ("the page until the session of its address is seen", weight / 1000, "KB (bar <= 80)", ""),
        (f"a session of {last:,} records, until seen", opened, "ms (bar <= 500)", ""),
        ("until it is seen", open_cost, "ms CPU of page and server", ""),
        ("a scrub step to the next record", median(steps), "ms (bar <= 50)", ""),
        ("a scrub step to the record before", median(back), "ms (bar <= 50)", ""),
        ("a scrub step to a far record", median(jumps), "ms (bar <= 50)", ""),
        ("such a step", jump_cost / STEPS, "ms CPU of page and server", ""),
        (f"a prompt of {prompt['parts']:,.0f} parts, until it is proved", prompt["taken"], "ms (bar <= 300)", ""),
    ]


async def _sleeping_rows(browser: Browser, busy: Busy) -> list[Row]:
    """Of the server: what events cost beside observers that are connected and follow nothing."""
    async with staged(browser, ScriptedModel([])) as stage, AsyncExitStack() as observers:
        _, publisher = await make_busy_session(stage.place.host, min(busy.conversations, 10))

        async def cost() -> float:
            begin = time.process_time()
            await publisher.publish(busy.storm_events_s, busy.storm_s / 4)
            return time.process_time() - begin

        alone = min([await cost() for _ in range(3)])
        for _ in range(OBSERVERS):
            observer = await observers.enter_async_context(stage.place.socket())
            await observer.call("initialize", observe=True)
        beside = min([await cost() for _ in range(3)])
    return [(f"events beside {OBSERVERS} observers that sleep, of alone", beside / alone, "x CPU (bar: 1)", "")]


async def _busy_rows(browser: Browser, busy: Busy) -> list[Row]:
    async with staged(browser, ScriptedModel([])) as stage:
        session, publisher = await make_busy_session(stage.place.host, busy.conversations)
        async with stage.page(f"&/s/{session.id}") as page:
            await page.follows(session.id)
            storm = publisher.publish(busy.storm_events_s, busy.storm_s)
            seen, _ = await asyncio.gather(page.run(_FRAMES, busy.storm_s), storm)
            before = await page.heap()
            await publisher.publish(busy.calm_events_s, busy.calm_s)
            after = await page.heap()
    name = f"{busy.conversations:,} conversations, {seen['events']:,.0f} events/s"
    grown = f"memory of its scripts, {busy.calm_s:.0f} s of {busy.calm_events_s} events/s"
    return [
        (f"frames, {name}", seen["frames"], "/s (bar >= 30)", ""),
        (f"{grown}, before", before / _MIB, "MiB", ""),
        (f"{grown}, after", after / _MIB, "MiB (bar: flat)", ""),
    ]
