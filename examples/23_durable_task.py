"""A task survives the death of its process: killed in the middle of a tool, it goes on and gives one answer.

`pay` may have happened when the process died, so it is not called again: the model is told that, and looks first.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedCall, ScriptedModel, ScriptedRequest, call

BOOK = Path(os.environ.setdefault("BOOK", f"{tempfile.mkdtemp()}/book"))


@tertulia.tool
def pay(amount: int) -> str:
    """Pay once, and never twice."""
    with BOOK.open("a") as book:
        book.write(f"{amount}\n")
    if "DIES" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


@tertulia.tool(read_only=True)
def look() -> str:
    """Read what was paid."""
    return BOOK.read_text()


def model(request: ScriptedRequest) -> ScriptedCall | str:
    last = request.last_input
    if last == "Pay 40.":
        return call("pay", {"amount": 40}, "c1")
    return call("look", {}, "c2") if last.startswith("unknown") else f"The book says {last.strip()}."


async def send(entering: tertulia.Session) -> str | None:
    async with entering as session:
        print(session.id, flush=True)
        return (await session.root.message("Pay 40.", message_id="order-1")).text


settings = tertulia.Settings(model=ScriptedModel([model], repeat=True), tools=[pay, look], on_restart="continue")
if "DIES" in os.environ:
    asyncio.run(send(tertulia.Session.start(settings)))
else:
    os.environ["TERTULIA_HOME"] = tempfile.mkdtemp()
    child = subprocess.Popen([sys.executable, __file__], env={**os.environ, "DIES": "1"}, stdout=subprocess.PIPE)
    session_id = child.communicate()[0].decode().strip()
    assert child.returncode == -signal.SIGKILL
    answer = asyncio.run(send(tertulia.Session.resume(session_id, settings, continue_tasks=True)))
    print(answer)
    assert (answer, BOOK.read_text()) == ("The book says 40.", "40\n")
