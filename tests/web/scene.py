"""A session as people have them, for pictures and for looking at all views: a chain, a plan, a patch, a canvas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tertulia.testing import ScriptedAnswer, ScriptedModel, ScriptedRequest, call, say
from tests.web.browser import Browser, Page
from tests.web.stage import Stage, staged

SHOP = """def total(items):
    sum = 0
    for i in items:
        sum = sum + i.price
    return sum
"""
PATCH = '''*** Begin Patch
*** Update File: app.py
@@
 def total(items):
-    sum = 0
-    for i in items:
-        sum = sum + i.price
-    return sum
+    """The price of everything in the basket, in cents."""
+    return sum(item.price * item.count for item in items)
*** Add File: tests/test_total.py
+from types import SimpleNamespace as Item
+
+from app import total
+
+
+def test_the_total_counts_each_item():
+    assert total([Item(price=250, count=2), Item(price=100, count=1)]) == 600
*** End Patch
'''
FOUND = """One test fails: `test_two_of_a_kind` expects **500** and gets 250.

| test | result |
|---|---|
| test_empty | passes |
| test_two_of_a_kind | fails |

The count of an item is ignored in `total`."""
CAUSE = """## Cause

The **count** of an item is ignored, so two of a kind cost as much as one. I will

1. change the sum in `app.py`,
2. add the test that was missing.

```python
return sum(item.price * item.count for item in items)
```
"""
CANVAS = """<style>
body { font: 15px system-ui; padding: 8px }
b { display: inline-block; background: #6aa7ff; height: 12px; border-radius: 4px }
</style>
<h2>Release 1.4</h2><p>tests <b style="width:180px"></b> 14 of 14</p><p>review <b style="width:120px"></b> 2 of 3</p>"""
PLAN = [
    {"step": "Find the cause", "status": "completed"},
    {"step": "Change the sum", "status": "in_progress"},
    {"step": "Have it reviewed", "status": "pending"},
]


def answer(request: ScriptedRequest) -> ScriptedAnswer:
    """The model of the scene: what it says depends on what it read last."""
    text = request.last_input
    match text:
        case "Fix the basket: two of a kind cost as much as one.":
            return say("I read the code first.", call("shell", {"command": ["cat", "app.py"]}))
        case "Run the tests and tell me which fail.":
            return say(FOUND)
        case "Show how far we are.":
            return call("canvas_update", {"html": CANVAS, "title": "Release 1.4"})
        case "Tidy up.":
            return say("The build is old.", call("shell", {"command": ["rm", "-rf", "build"]}))
        case "Ask me.":
            return call("a__ask", {"question": "Shall the release go out today?"})
    if "def total" in text:
        arguments = {"title": "tester", "user_instruction": "Run the tests and tell me which fail."}
        return say("The count looks ignored. I ask a tester.", call("conv_create", arguments))
    if "test_two_of_a_kind" in text:
        return say(CAUSE, call("update_plan", {"plan": PLAN}))
    if "plan" in text.lower():
        return say("Now the change.", call("apply_patch", {"input": PATCH}))
    return say("That is done.")


@asynccontextmanager
async def shop(browser: Browser, folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A server that works in a small shop."""
    (folder / "app.py").write_text(SHOP, encoding="utf-8")
    model = ScriptedModel([answer], repeat=True)
    fields = {"approval_policy": "untrusted", "network": False, **settings}
    async with staged(browser, model, cwd=folder, **fields) as stage:
        yield stage


async def ask_about_the_basket(stage: Stage, page: Page) -> None:
    """Play until the patch of the chain is asked about."""
    await stage.start_session(page)
    await page.fill("#composer", "Fix the basket: two of a kind cost as much as one.")
    await page.press("Enter")
    await page.sees(".card .diff")


async def ask_in_another_session(stage: Stage, page: Page) -> str:
    """Have an agent of another session draw a canvas, and its root wait for an answer; where the agent is."""
    session = await stage.place.host.start()
    agent = await session.open(
        title="ada", agent={"name": "ada", "archetype": "employee"}, sandbox="danger-full-access"
    )
    await agent.message("Show how far we are.")
    await page.follows(session.id)
    await tell(stage, session.id, "Tidy up.")
    return f"/s/{session.id}/c/{agent.id}"


async def tell(stage: Stage, session_id: str, text: str) -> None:
    """Send a message to the root of a session, from another client than the page."""
    async with stage.place.socket() as client:
        await client.call("initialize", observe=True)
        await client.call("conversation/message", session_id=session_id, conversation_id="root", text=text, detach=True)
