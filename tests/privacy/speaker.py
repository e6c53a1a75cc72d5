"""A session that says a secret in every place, and then ends well, badly, or not at all. Run as a program.

SEED, POLICY, END and PLACE (a directory whose name is a secret) come on standard input, so that no argument, file or
variable but those that are meant has a secret in it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import tertulia
from tertulia.errors import StorageError
from tertulia.protocol.events import BackgroundEvent
from tertulia.session.operations import call as operate
from tertulia.testing import ScriptedModel, ScriptedReply, call, fail, say
from tests.privacy.secrets_told import Secrets

TTL_S = 0.5
SMALL_DISK = 40_000
"""Bytes of a file, when the disk is to be full in the middle of it all."""
TURNS = 3
"""Rounds before the one that is compacted."""


class Odd(BaseException):
    """Nothing that anybody expects of a tool."""


class Speaker:
    """Says everything once."""

    def __init__(self, secrets: Secrets, place: str, end: str) -> None:
        self.secrets = secrets
        self.place = place
        self.end = end
        self.running = asyncio.Event()
        self.go = asyncio.Event()
        self.conversation: Any = None
        self.failures = 0
        """Of the disk."""

    async def attempt(self, step: Any) -> None:
        """Do it; a full disk is counted, and one goes on."""
        try:
            done = await step
        except StorageError:
            self.failures += 1
        else:
            error = getattr(done, "error", None)
            self.failures += error is not None and error.code == StorageError.code

    async def take_back(self, there: tertulia.Conversation) -> None:
        """Have a message wait, and take it back."""
        waiting = asyncio.ensure_future(there.message(self.secrets["queued"]))
        await asyncio.sleep(0)
        await self.attempt(there.take_back())
        await self.attempt(waiting)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────

    def tools(self) -> list[Any]:
        secrets = self.secrets

        @tertulia.tool
        def look(what: str, context: tertulia.CallContext) -> str:
            """Say what is in the environment."""
            context.publish(BackgroundEvent(secrets["published"]))
            return secrets["result"] + os.environ["CANARY_PLACE"]

        @tertulia.tool
        def stumble(what: str) -> str:
            """Fail, in a thread."""
            raise ValueError(secrets["tool_error"])

        @tertulia.tool
        async def fall() -> str:
            """Fail in the oddest way."""
            raise Odd(secrets["odd_exception"])

        @tertulia.tool
        async def wait() -> str:
            """Wait until somebody has steered."""
            self.running.set()
            await self.go.wait()
            return "waited"

        @tertulia.tool
        async def die() -> str:
            """Be gone, in the middle of a turn."""
            if self.end == "abort":
                faulthandler.enable()
                os.abort()
            os.kill(os.getpid(), signal.SIGKILL)
            return "never"

        return [look, stumble, fall, wait, die]

    # ── what the model says ──────────────────────────────────────────────────────────────────────────────────

    def replies(self) -> list[Any]:
        s = self.secrets
        plan = {"plan": [{"step": s["plan"], "status": "in_progress"}], "explanation": s["plan"]}
        create = {
            "user_instruction": s["sent"],
            "title": s["child_title"],
            "base_instruction_text": s["child_instructions"],
        }
        return [
            say(s["reply"], call("look", {"what": s["arguments"]}, s["call_id"]), reasoning=s["reasoning"]),
            say("", call("stumble", {"what": s["arguments"]}), call("update_plan", plan), call(s["tool_name"], {})),
            call("wait"),
            ScriptedReply(text=f"{s['partial']} is withdrawn, and this is not", retrying=s["retrying"]),
            json.dumps({"v": s["invalid_output"]}),  # the repair of what was no JSON; the errors quote it
            call("conv_send", {"conversation_id": s["unknown_conversation"], "text": s["sent"]}),
            call("conv_create", create),
            say(s["child_answer"]),
            call("conv_list"),
            "I have heard enough",
            RuntimeError(s["exception"]),
            fail(s["model_error"]),
            call("fall"),
            "up again",
            "detached",
            *["more"] * TURNS,
            s["summary"],
            "after",
            call("die"),
        ]

    # ── the run ──────────────────────────────────────────────────────────────────────────────────────────────

    async def speak(self, session: Any, **open: Any) -> None:
        s = self.secrets
        self.conversation = there = await session.open(
            title=s["title"], base_instructions=s["base_instructions"], user_instructions=s["user_instructions"],
            cwd=self.place, model=ScriptedModel(self.replies(), chunk=7), **open,
        )  # fmt: skip
        picture = {"type": "image", "image_url": f"data:image/png;base64,{s['image']}"}
        local = {"type": "local_image", "path": "picture.png"}
        task = asyncio.ensure_future(
            there.message(
                [{"type": "text", "text": s["prompt"]}, picture, local],
                sender=s["sender"],
                message_id=s["message_id"],
                output_schema={"properties": {"v": {"const": "else"}}, "description": s["output_schema"]},
            )
        )
        await asyncio.wait([task, asyncio.ensure_future(self.running.wait())], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await self.attempt(there.steer(s["steer"]))
            await self.attempt(self.take_back(there))
        self.go.set()
        await self.attempt(task)
        for text in ("delegate", "break", "fail", "fall"):
            await self.attempt(there.message(text))
        params = {"conversation_id": there.id, "text": s["detached"], "detach": True}
        await self.attempt(operate(tertulia.Host(tertulia.Settings()), session, "conversation/message", params))
        for _ in range(TURNS):
            await self.attempt(there.message("x" * 3_000))
        await self.attempt(there.compact())
        await self.attempt(there.message("and now"))
        await self.attempt(there.set_context(title=s["new_title"]))
        await self.attempt(there.fork())

    async def work(self, session: Any) -> None:
        """Commands and patches, each of which somebody allows or refuses with a word."""
        s = self.secrets
        patch = f"*** Begin Patch\n*** Add File: {s['patched_file']}\n+{s['patched_text']}\n*** End Patch\n"
        ask = {"sandbox_permissions": "require_escalated", "justification": s["justification"]}
        answering = asyncio.ensure_future(self.answer(session))
        there = await session.open(
            cwd=self.place, include_apply_patch_tool=True, approval_policy="untrusted",
            model=ScriptedModel([
                call("shell", {"command": ["touch", s["command"]], **ask}),
                call("shell", {"command": ["cat", "output.txt"]}),
                call("shell", {"command": ["rm", "-f", "refused"]}),
                call("apply_patch", patch),
                "worked",
            ]),
        )  # fmt: skip
        await self.attempt(there.message("work"))
        terminal = {"cmd": f"cat output.txt; printf '%s' '{s['terminal']}'"}
        other = await session.open(
            cwd=self.place, shell_mode="streamable", approval_policy="untrusted",
            model=ScriptedModel([call("exec_command", terminal), "typed"]),
        )  # fmt: skip
        await self.attempt(other.message("type"))
        answering.cancel()

    async def answer(self, session: Any) -> None:
        async with session.events(attend=True) as news:
            async for event in news:
                if event.type == "approval_request":
                    refused = "refused" in str(event.data)
                    word = self.secrets["refusal" if refused else "approval"]
                    decision = "deny" if refused else "allow"
                    await session.approvals.resolve(event.data["approval_id"], decision, message=word)

    async def finish(self, session: Any) -> None:
        if self.end in ("kill", "abort"):
            await self.conversation.message("die")
        await session.close()


class Travel:
    """Two conversations of different policies: what the strict one says must not be found with the other."""

    def __init__(self, secrets: Secrets, speaker: Speaker) -> None:
        self.secrets = secrets
        self.speaker = speaker

    async def strict_child(self, session: Any, policy: str) -> None:
        """A full caller asks a strict child, lists it, reads it, and sums it all up."""
        s = self.secrets
        child = await session.open(
            storage_policy=policy, title=s["title"], base_instructions=s["base_instructions"],
            model=ScriptedModel([
                say(s["reply"], call("look", {"what": s["arguments"]})), s["child_answer"], fail(s["model_error"]),
                say(s["reply"], call("look", {"what": s["arguments"]}), call("die")),
            ]),
        )  # fmt: skip
        send = call("conv_send", {"conversation_id": child.id, "text": "tell me"})
        read = call("conv_history", {"conversation_id": child.id})
        # The notes repeat what was heard, as a model's would.
        model = ScriptedModel(
            [send, "noted", send, "failed", call("conv_list"), "seen", read, "read", s["summary"], send]
        )
        caller = await session.open(model=model)
        for text in ("ask", "ask again", "list", "read " + "x" * 3_000):
            await caller.message(text)
        await caller.compact()
        await caller.fork()
        self.speaker.conversation = caller

    async def strict_caller(self, session: Any, policy: str) -> None:
        """A strict caller tells a full child, which repeats it to its tools, its plan and a child of its own."""
        s = self.secrets
        plan = {"plan": [{"step": s["plan"], "status": "pending"}]}
        look = call("look", {"what": s["arguments"]})
        child = await session.open(
            model=ScriptedModel([
                say(s["reply"], look, call("update_plan", plan), reasoning=s["reasoning"]),
                call("conv_create", {"user_instruction": s["sent"], "title": "t", "base_instruction_text": "b"}),
                s["child_answer"],
                s["child_answer"],
                "a word of its own",
                s["summary"],
                say(s["reply"], call("look", {"what": s["arguments"]}), call("die")),
            ]),
        )  # fmt: skip
        send = call("conv_send", {"conversation_id": child.id, "text": s["sent"]})
        caller = await session.open(storage_policy=policy, model=ScriptedModel([send, s["result"], send]))
        await caller.message(s["prompt"])
        await child.message("what do you say yourself?")
        await child.compact()
        await child.fork()
        self.speaker.conversation = caller


async def main() -> None:
    seed, policy, end, place = sys.stdin.readline().rstrip("\n").split("\t")
    secrets = Secrets(seed)
    os.environ["CANARY_PLACE"] = secrets["environment"]
    speaker = Speaker(secrets, place, end)
    which, _, rest = policy.partition(":")
    strict = which in ("headers_only", "none", "ttl")
    storage: Any = policy if strict else "full"
    settings = tertulia.Settings(
        model=ScriptedModel(["hm"], repeat=True), storage_policy=storage, tools=speaker.tools(),
        sandbox="danger-full-access", approval_policy="untrusted",
    )  # fmt: skip
    travel = Travel(secrets, speaker)
    async with tertulia.Session.start(settings) as session:
        os.write(1, f"{session.id}\n".encode())
        if end == "full_disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, resource.RLIM_INFINITY))
        if which == "strict_child":
            await travel.strict_child(session, rest)
        elif which == "strict_caller":
            await travel.strict_caller(session, rest)
        else:
            await speaker.speak(session)
            await speaker.attempt(speaker.work(session))
        if which == "switched":
            for conversation in session.conversations():
                await conversation.set_context(storage_policy=rest)
        await speaker.finish(session)
    os.write(1, json.dumps({"failures": speaker.failures}).encode())


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, str(Path(__file__).parents[2]))
    asyncio.run(main())
