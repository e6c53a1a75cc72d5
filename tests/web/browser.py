"""A real browser for the tests of the page: one for all tests of a run, driven by playwright-core in Node."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any

from tests.conformance.suite import NODE
from tests.deadlines import HANG_S
from tests.web.node import ROOT

TOOLS = ROOT / ".venv" / "web-tools"
CHROMIUM = Path("/usr/bin/chromium")


def why_not() -> str | None:
    """What is missing for these tests; None where nothing is."""
    if not CHROMIUM.exists():
        return "chromium is not installed (apt-get install chromium)"
    if not (TOOLS / "node_modules" / "playwright-core").exists():
        return "playwright-core is not installed (make web-tools)"
    return None


FOLLOWS = """async (id) => {
  const { app } = await import("/app_state.js");
  while (app.feeds.get(id)?.state !== "live") await new Promise((done) => setTimeout(done, 30));
}"""


class BrowserError(Exception):
    """What the browser, or the page in it, says went wrong."""


class Browser:
    """The driver's other end. Requests run side by side; each waits for its own answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ids = count(1)
        self._lock = Lock()
        self._answers: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]] = {}
        assert process.stdout is not None
        self.version = json.loads(process.stdout.readline())["ready"]
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            loop, future = self._answers.pop(message["id"])
            loop.call_soon_threadsafe(_settle, future, message)

    async def call(self, page: str, method: str, *arguments: Any) -> Any:
        """Call a method of a page, or with "" of the driver."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        number = next(self._ids)
        self._answers[number] = (loop, future)
        request = {"id": number, "page": page, "method": method, "args": arguments}
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        async with asyncio.timeout(HANG_S):
            return await future

    @asynccontextmanager
    async def page(self, **options: Any) -> AsyncIterator[Page]:
        """A page with a storage of its own."""
        name = f"page{next(self._ids)}"
        await self.call("", "open", name, options)
        try:
            yield Page(self, name)
        finally:
            await self.call("", "close", name)


def _settle(future: asyncio.Future[Any], message: dict[str, Any]) -> None:
    if future.done():
        return
    if "error" in message:
        future.set_exception(BrowserError(message["error"]))
    else:
        future.set_result(message["result"])


class Page:
    """One page. `page.call("click", "text=Send")` is playwright's `page.click("text=Send")`."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name

    async def call(self, method: str, *arguments: Any) -> Any:
        """Any method of playwright's page."""
        return await self._browser.call(self._name, method, *arguments)

    async def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        await self.call("goto", url)

    async def click(self, selector: str) -> None:
        """Click on the first element that fits, as soon as it can be clicked on."""
        await self.call("click", selector)

    async def fill(self, selector: str, text: str) -> None:
        """Put a text into a field."""
        await self.call("fill", selector, text)

    async def press(self, key: str) -> None:
        """Press a key, where the focus is."""
        await self.call("keyboard.press", key)

    async def sees(self, selector: str) -> None:
        """Return as soon as an element that fits is visible."""
        await self.call("waitForSelector", selector)

    async def sees_no(self, selector: str) -> None:
        """Return as soon as no element that fits is visible."""
        await self.call("waitForSelector", selector, {"state": "hidden"})

    async def text(self, selector: str) -> str:
        """What an element says."""
        return await self.call("innerText", selector)

    async def run(self, script: str, argument: Any = None) -> Any:
        """The value of an expression in the page; with an argument, of the function that it is."""
        called = script if argument is None else f"({script})({json.dumps(argument)})"
        return await self.call("evaluate", called)

    async def until(self, script: str) -> None:
        """Return as soon as an expression in the page is true."""
        # Not playwright's own waiting, which has the page evaluate a text: its policy refuses that.
        await self.run(f"(async () => {{ while (!({script})) await new Promise((done) => setTimeout(done, 30)); }})()")

    async def follows(self, session_id: str) -> None:
        """Return as soon as the page hears of that session, and attends to its questions."""
        await self.run(FOLLOWS, session_id)

    async def seen(self) -> dict[str, list[str]]:
        """What the page asked for, logged, and failed with, so far."""
        return await self._browser.call("", "seen", self._name)

    async def heap(self) -> int:
        """The bytes that its scripts hold, without what nothing refers to."""
        return await self._browser.call("", "heap", self._name)

    async def cpu(self) -> float:
        """The milliseconds of CPU that its scripts, layout and drawing have taken since this was asked first."""
        return await self._browser.call("", "cpu", self._name)

    async def screenshot(self, path: Path) -> None:
        """What it looks like now."""
        await self.call("screenshot", {"path": str(path)})


@contextmanager
def started_browser() -> Iterator[Browser]:
    """A browser, until the end of the block."""
    profile = TemporaryDirectory(ignore_cleanup_errors=True)
    driver = Path(__file__).parent / "driver.mjs"
    process = subprocess.Popen(
        [NODE, driver, TOOLS, profile.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield Browser(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        profile.cleanup()
        shutil.rmtree(profile.name, ignore_errors=True)
