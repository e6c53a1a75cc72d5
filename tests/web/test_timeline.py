"""The time line of a session, and going back to any moment of it, in a real browser."""

from __future__ import annotations

import json

import pytest

from tertulia.testing import ScriptedModel, call, say
from tests.web.browser import Browser, Page
from tests.web.stage import Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def replies() -> list[object]:
    """A delegation with a call in it, and an answer."""
    return [
        say(
            "I have it tested.",
            call("conv_create", {"title": "tester", "user_instruction": "Do the tests pass?"}, "c1"),
        ),
        say("", call("update_plan", {"plan": [{"step": "Run them", "status": "completed"}]}, "p1")),
        say("All pass."),
        say("They pass."),
    ]


async def play(stage: Stage, page: Page) -> str:
    """The whole delegation, seen to its end; the id of the session."""
    session = await stage.start_session(page)
    await page.fill("#composer", "Is it right?")
    await page.press("Enter")
    await page.sees("text=They pass.")
    await page.until("document.querySelectorAll('.bar').length === 3 && !document.querySelector('.bar-running')")
    return session


async def test_the_time_line_shows_tasks_calls_and_delegations_and_leads_back(browser: Browser) -> None:
    """S004-26: who ran for whom, out and back; a click goes to that moment, and leaving shows the present."""
    async with staged(browser, ScriptedModel(replies())) as stage, stage.page() as page:
        await play(stage, page)
        kinds = await page.run("[...document.querySelectorAll('.bar')].map((bar) => bar.classList[1])")
        assert sorted(kinds) == ["bar-continuation", "bar-target", "bar-user"]
        assert await page.run("document.querySelectorAll('.arrow').length") >= 1
        assert "tester" in await page.run("document.querySelector('table.unseen').textContent")

        await page.call("mouse.click", *await middle_of(page, ".bar-target"))
        await page.sees("role=group[name='Replay']")
        assert "n=" in await page.run("location.hash")
        await page.run(TO_THE_TARGET)
        await page.until("document.querySelector('.chain').textContent === 'root › tester, then back'")
        assert await page.run("document.querySelector('#composer')") is None

        await page.click("role=button[name='To the beginning']")
        await page.sees_no("text=They pass.")
        await page.click("role=button[name='To the end']")
        await page.sees("text=They pass.")
        await page.click("text=Leave the replay")
        await page.sees("#composer")


TO_THE_TARGET = """(async () => {
  const { app } = await import("/app_state.js");
  const { spans } = await app.link.request("record/outline", { session_id: app.route.session });
  app.go({ n: String(spans.find((span) => span.kind === "target").first_n) });
})()"""


async def test_steps_go_by_record_request_and_task_and_the_address_leads_there_again(browser: Browser) -> None:
    async with staged(browser, ScriptedModel(replies())) as stage, stage.page() as page:
        session = await play(stage, page)
        await page.run(f"location.hash = '#/s/{session}?n=1'")
        await page.sees("role=group[name='Replay']")
        places = [await position(page)]
        for step, key in [("record", "ArrowRight"), ("request", "Shift+ArrowRight"), ("task", "Alt+ArrowRight")]:
            # Wherever the focus is, but where arrows have a meaning of their own.
            await page.run("document.activeElement.blur()")
            await page.call("focus", "input[type=range]" if step == "record" else ".scrubber button")
            await page.press(key)
            await page.until(f"Number(new URLSearchParams(location.hash.split('?')[1]).get('n')) > {places[-1]}")
            places.append(await position(page))
            assert places[-1] > places[-2], step
        await page.press("ArrowLeft")
        await page.until(f"location.hash.includes('n={places[-1] - 1}')")
        # The same address in a page that has seen nothing of it.
        address = await page.run("location.hash.slice(1)")
        async with stage.page(f"&{address}") as other:
            await other.sees("role=group[name='Replay']")
            assert await position(other) == places[-1] - 1


async def test_what_the_model_saw_is_proved_and_a_copy_goes_on_from_there(browser: Browser) -> None:
    """The end of the story: the request that went wrong, what the model saw with it, and a fork at that place."""
    model = ScriptedModel([*replies(), "The copy goes on."])
    async with staged(browser, model) as stage, stage.page() as page:
        session = await play(stage, page)
        await page.click("role=tab[name='Prompt']")
        await page.sees("text=rebuilt, byte for byte what was sent")
        assert "of 2" in await page.text(".prompt-head option:checked")
        await page.sees(".prompt-parts li.is-new")
        await page.click("role=button[name='The request before']")
        await page.sees_no(".prompt-parts li.is-new")
        await page.click("role=button[name='Go there']")
        await page.sees("role=group[name='Replay']")
        await page.click(".scrubber button:text-is('Fork here')")
        await page.sees("#composer")
        await page.until(f"location.hash.split('/')[2].split('?')[0] !== '{session}'")
        await page.fill("#composer", "And now?")
        await page.press("Enter")
        await page.sees("text=The copy goes on.")
        await page.sees_no("text=They pass.")


async def test_pauses_are_folded_and_named_and_a_stretch_is_zoomed_into(browser: Browser) -> None:
    """Two hours in which nothing ran take the room of a word; what was dragged over fills the line."""
    async with staged(browser, ScriptedModel(replies())) as stage, stage.page() as page:
        await page.run(LATER, 7_200)
        await play(stage, page)
        await page.until("document.querySelector('.pause text')?.textContent === '2h'")
        assert await page.run("document.querySelector('.pause rect').getBoundingClientRect().width") < 30
        await page.sees(".arrow.back")
        begin = await page.text(".lanes-foot span:first-child")
        left, right, middle = await page.run(SIDES, ".bar-continuation")
        await page.call("mouse.move", left + 20, middle)
        await page.call("mouse.down")
        await page.call("mouse.move", (left + right) / 2, middle)
        await page.call("mouse.up")
        await page.sees("text=Show all")
        await page.until("document.querySelectorAll('.bar').length === 1")
        wide = await page.run("document.querySelector('.bar-continuation').getBoundingClientRect().width")
        assert wide > 0.9 * await page.run("document.querySelector('.lanes svg').clientWidth")
        assert await page.run("document.querySelector('.pause')") is None
        await page.click("text=Show all")
        await page.sees(".pause")
        assert await page.text(".lanes-foot span:first-child") == begin


LATER = """async (seconds) => {
  // The record as if the last task had begun so much later, and taken a second more.
  const { app } = await import("/app_state.js");
  const request = app.link.request.bind(app.link);
  app.link.request = async (method, params) => {
    const answer = await request(method, params);
    if (method !== "record/outline") return answer;
    const last = answer.spans.at(-1);
    const late = (at) => at + (at >= last.start ? seconds : 0) + (at > last.start ? 1 : 0);
    const pause = { start: last.start, end: last.start + seconds };
    return { ...answer, last_ts: late(answer.last_ts), pauses: [pause],
      spans: answer.spans.map((span) => ({ ...span, start: late(span.start), end: span.end && late(span.end) })),
      marks: answer.marks.map((mark) => ({ ...mark, at: late(mark.at) })) };
  };
}"""
SIDES = """(selector) => {
  const { left, right, top, height } = document.querySelector(selector).getBoundingClientRect();
  return [left, right, top + height / 2];
}"""


async def test_a_time_line_of_thousands_of_marks_is_painted_and_leads_to_each_moment(browser: Browser) -> None:
    """UI.md 5.3: elements below 2,000 marks, a canvas above; both in the colours of the scheme."""
    async with staged(browser, ScriptedModel(["Yes."])) as stage, stage.page("&/", colorScheme="dark") as page:
        await page.sees("main >> text=New session")
        session = await stage.place.host.start()
        await session.root.message("Well?")
        await page.run(MANY, session.id)
        await page.until(f"{COLOUR}?.endsWith(',180,255')")
        assert await page.run("document.querySelectorAll('.lanes .bar').length") == 0
        await page.click("button.theme")
        await page.click("button.theme")
        await page.until(f"{COLOUR}?.endsWith(',87,194')")
        left, right, middle = await page.run(SIDES, ".lanes canvas")
        await page.call("mouse.click", (left + right) / 2, middle)
        await page.sees("role=group[name='Replay']")
        assert "the last 100" in await page.run("document.querySelector('table.unseen').textContent")


MANY = """async (session) => {
  // The record as if its first task had run a thousand times, each with a call.
  const { app } = await import("/app_state.js");
  const request = app.link.request.bind(app.link);
  app.link.request = async (method, params) => {
    const answer = await request(method, params);
    if (method !== "record/outline") return answer;
    const [{ conversation_id, start }] = answer.spans;
    const times = Array.from({ length: 1_001 }, (_, index) => start + index);
    const spans = times.map((at) => ({ ...answer.spans[0], task_id: `t${at}`, start: at, end: at + 1 }));
    const marks = times.map((at) => ({ conversation_id, kind: "call", at: at + 0.5, n: 9 }));
    return { ...answer, spans, marks, arrows: [], pauses: [], last_ts: start + 1_000 };
  };
  app.go({ session });
}"""
COLOUR = """(() => {
  const canvas = document.querySelector('.lanes canvas');
  return canvas && [...canvas.getContext('2d').getImageData(20, 6, 1, 1).data].slice(0, 3).join();
})()"""


async def test_every_step_of_a_replay_shows_what_the_server_folds(browser: Browser) -> None:
    """Steps are folded in the page, from a stretch of the record that was read ahead: on, back and in leaps."""
    async with staged(browser, ScriptedModel(replies())) as stage, stage.page() as page:
        session = await play(stage, page)
        await page.run(f"location.hash = '#/s/{session}?n=20'")
        await page.sees("role=group[name='Replay']")
        await page.run(READ_AHEAD)
        last = await page.run("app.replay.end")
        places = [*range(20, last + 1), *range(last - 1, 0, -1), 9, 30, 10]
        different, requests = await page.run(WALK, places)
        assert different == []
        assert requests <= 2, "the server was asked for single steps"


READ_AHEAD = """(async () => {
  globalThis.app = (await import("/app_state.js")).app;
  while (!app.replay?.stretch) await new Promise((done) => setTimeout(done, 20));
})()"""
WALK = """async (places) => {
  const { readSnapshot, writeSnapshot } = await import("/board/snapshot.js");
  const inOrder = (_, part) => (part && typeof part === "object" && !Array.isArray(part)
    ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part);
  const text = (board) => JSON.stringify(writeSnapshot(board), inOrder);
  const request = app.link.request.bind(app.link);
  let asked = 0;
  app.link.request = (method, params) => ((asked += method === "record/board"), request(method, params));
  const different = [];
  for (const n of places) {
    app.go({ n: String(n) }, true);
    while (app.replay.shown !== n) await new Promise((done) => setTimeout(done, 0));
    const { board } = await request("record/board", { session_id: app.route.session, at_n: n });
    if (text(app.replay.board) !== text(readSnapshot(board))) different.push(n);
  }
  return [different, asked];
}"""


async def position(page: Page) -> int:
    """The record that is shown."""
    return int(await page.run("new URLSearchParams(location.hash.split('?')[1]).get('n')"))


async def middle_of(page: Page, selector: str) -> tuple[float, float]:
    """Where the middle of an element is on the screen."""
    box = await page.run(f"JSON.stringify(document.querySelector('{selector}').getBoundingClientRect())")
    found = json.loads(box)
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2
