"""A life in a storm: it begins or resumes a session, does everything that leaves records, and may be killed anywhere.

With several slots it does much of that side by side: three targets of one answer, and messages of a person to all.

What it was told stands in FOLDER/told, what its tools did in FOLDER/effects; both lie outside of the session's home.
Every text has a CANARY in it: messages, message ids, arguments, outputs, answers, titles and instructions.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tertulia
from tertulia.errors import StorageError
from tertulia.events.clock import SystemClock
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.recorder import Recorder
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.store import Row
from tertulia.rollout.sweep.retention import Retention
from tertulia.session.resume.retention_sweep import RetentionSweeper
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say
from tests.durability.reference import Notes

CANARY = "CANARY"
POLICIES: dict[str, StoragePolicy] = {
    "full": tertulia.Full(),
    "headers_only": tertulia.HeadersOnly(),
    "none": tertulia.NoStorage(),
    "ttl": tertulia.Ttl(0.2),
    "mixed": tertulia.Full(),
    "mixed_ttl": tertulia.Ttl(0.2),
}
"""Those of the root; where they are mixed, its children keep headers only."""
MOST_COMMITS = 70
"""About as many as a life has."""
SLOTS = (1, 4, 4)
"""Drawn for each life: what ran side by side may be gone on with one after the other, and the other way round."""
ACTS = ("act", "two", "tell", "make", "run", "fork", "plain", "two", "tell", "close", "ask", "crowd")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """What was written whole: the last line of one who was killed may be cut."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def respond(request: ScriptedRequest) -> Any:
    """The model: it answers what it was asked last, in every life alike."""
    words = request.last_input.split(" ")
    match words[0]:
        case "act":
            return call("act", {"what": request.last_input})
        case "two":
            return say(f"{CANARY} two", call("act", {"what": f"{request.last_input} a"}), call("act", {"what": "b"}))
        case "tell":
            return call("conv_send", {"conversation_id": words[1], "text": f"act {CANARY} told {words[2]}"})
        case "ask":
            fields = {"conversation_id": words[1], "text": f"two {CANARY} asked {words[2]}"}
            new = [{"user_instruction": f"{what} {CANARY} {words[2]}", "title": CANARY} for what in ("act", "two")]
            return say("", call("conv_send", fields), *(call("conv_create", child) for child in new))
        case "make":
            return call("conv_create", {"user_instruction": f"act {CANARY} {words[1]}", "title": CANARY})
        case "run":
            return call("shell", {"command": ["sh", "-c", f"echo {CANARY}"]})
        case _:
            return f"{CANARY} answer to {request.last_input[:40]}"


class StormLife:
    """One process's part of a session's life."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder = folder
        self._policy = policy
        self.told = Notes(folder / "told")
        self._effects = Notes(folder / "effects")
        self.model = ScriptedModel([respond], repeat=True)

    def tell(self, **what: Any) -> None:
        self.told.add(json.dumps(what))

    def settings(self, slots: int = 4) -> tertulia.Settings:
        @tertulia.tool
        def act(what: str) -> str:
            """Have an effect that cannot be taken back, in a thread."""
            self._effects.add(json.dumps({"did": what}))
            return f"{CANARY} did {what}"

        return tertulia.Settings(
            model=self.model,
            slots=slots,
            tools=[act],
            sandbox="danger-full-access",
            approval_policy="never",
            storage_policy=POLICIES[self._policy],
            retention={"ttl_action": "delete" if self._policy == "ttl" else "headers_only"},
        )

    def child_terms(self) -> dict[str, Any]:
        strict = {"storage_policy": tertulia.HeadersOnly()} if self._policy.startswith("mixed") else {}
        return {"title": CANARY, "user_instructions": f"{CANARY} be brief", **strict}

    async def say(self, there: tertulia.Conversation, text: str) -> None:
        """Under a message id of its own, which is told before: whoever sends it again finds it."""
        key = f"{CANARY} {text}"
        self.tell(sent=text, key=key, conversation=there.id)
        reply = await there.message(text, message_id=key)
        self.tell(replied=key, conversation=there.id, text=reply.text, status=reply.status, task=reply.task_id)
        again = await there.message(text, message_id=key)
        assert again.task_id == reply.task_id

    async def sweep(self, session: tertulia.Session) -> None:
        journal = session.parts.journal
        assert isinstance(journal, Recorder)
        action = "delete" if self._policy == "ttl" else "headers_only"
        await RetentionSweeper(journal.store, Retention(ttl_action=action), SystemClock(), list).sweep()

    async def listen(self, session: tertulia.Session) -> None:
        async for event in session.events(after=0):
            if event.seq is not None:
                self.tell(seq=event.seq, epoch=event.epoch, type=event.type, task=event.task_id)

    async def step(self, session: tertulia.Session, name: str, number: str) -> None:
        others = session.conversations()[1:]
        there = random.choice(session.conversations()) if name in ("act", "two", "plain") else session.root
        match name:
            case "tell" if others:
                await self.say(session.root, f"tell {others[0].id} {number}")
            case "ask" if others:
                await self.say(session.root, f"ask {others[0].id} {number}")
            case "crowd":
                await self.crowd(session, number)
            case "fork":
                fork = await session.root.fork()
                await self.say(fork, f"two {CANARY} {number}")
            case "close" if len(others) > 2:
                await others[-1].close()
            case "close" | "tell" | "ask":
                await self.sweep(session)
            case _:
                await self.say(there, f"{name} {CANARY} {number}")

    async def crowd(self, session: tertulia.Session, number: str) -> None:
        """A person writes to all conversations at once; root asks others meanwhile."""
        root, *others = session.conversations()
        question = [f"ask {others[0].id} {number}" if others else f"two {CANARY} {number}"]
        texts = [*question, *(f"two {CANARY} {number}-{at}" for at, _ in enumerate(others[:4]))]
        await asyncio.gather(*(self.say(there, text) for there, text in zip((root, *others), texts, strict=False)))

    async def live(self, seed: int) -> None:
        """Begin or go on, then do things in an order of its own."""
        random.seed(seed)
        begun = next((line["session"] for line in lines_of(self.folder / "told") if "session" in line), None)
        settings = self.settings(random.choice(SLOTS))
        entered = tertulia.Session.start(settings) if begun is None else tertulia.Session.resume(begun, settings)
        async with entered as session:
            if begun is None:
                self.tell(session=session.id)
            listening = asyncio.ensure_future(self.listen(session))
            if len(session.conversations()) < 2:
                await session.open(**self.child_terms())
            for at, name in enumerate(random.sample(ACTS, len(ACTS))):
                await self.step(session, name, f"{seed}-{at}")
            await self.sweep(session)
        await listening


def die_somewhere(seed: int, most_commits: int = MOST_COMMITS) -> None:
    """Have this process killed at a commit of its life: before it, after it, or within a few milliseconds of it.

    Counted in commits and not in seconds, so that it does not depend on how busy the machine is.
    """
    dice = random.Random(seed)
    left, how = dice.randrange(1, most_commits), dice.choice(("before", "after", "soon", "soon"))
    commit, commit_at_once = OwnedFile.commit, OwnedFile.commit_at_once

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def committed() -> None:
        if left == 0 and how == "after":
            die()
        if left == 0:
            threading.Timer(dice.random() * 0.005, die).start()

    def fatal(file: OwnedFile, rows: Sequence[Row]) -> None:
        nonlocal left
        left -= 1
        if left == 0 and how == "before":
            die()
        commit(file, rows)
        committed()

    def fatal_at_once(file: OwnedFile, rows: Sequence[Row]) -> bool:
        nonlocal left
        if left == 1 and how == "before":
            die()
        if not commit_at_once(file, rows):
            return False
        left -= 1
        committed()
        return True

    OwnedFile.commit, OwnedFile.commit_at_once = fatal, fatal_at_once  # type: ignore[method-assign]


async def live(folder: Path, policy: str, seed: int) -> None:
    """As a program's work, to its end if it comes to that. Seed 0 dies nowhere."""
    if seed:
        die_somewhere(seed)
    try:
        await StormLife(folder, policy).live(seed)
    except StorageError as error:
        raise AssertionError(error.message) from error
