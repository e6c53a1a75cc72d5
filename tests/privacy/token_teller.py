"""A session whose model, tools, servers and user say an agent's token wherever anything can be said. Run as a program.

`token_teller END`: END is `normal` or `kill`. The token, and the session's id, go to standard output and nowhere else
but there; everything that anybody was told goes to files of the directory `told`, the log to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

import tertulia
from tertulia.errors import NotFoundError
from tertulia.mcp.serve.endpoint import load_sdk
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, ScriptedReply, call, fail
from tests.mcp.fakes import bare
from tests.session.agents_stage import EMPLOYEE, Porter

TOLD = Path("told")


class Mouth:
    """Everything that is said has the token in it, once there is one."""

    def __init__(self) -> None:
        self.token = ""

    def forms(self) -> list[str]:
        t = self.token
        return [
            t, f"--token {t}", f"--token={t}", f"--token '{t}'", f'--token="{t}"', f"TERTULIA_TOKEN={t}", f"\\{t}\\",
            f'{{"token":"{t}"}}', f"{t}{t}", f"x{t}", f"{t[:20]}", f"{t[40:]}", f"\u00fc{t}\u00fc", f"'{t}\\''",
        ]  # fmt: skip

    @property
    def all(self) -> str:
        return "\n".join(self.forms())


def script(mouth: Mouth) -> list[Any]:
    """What the model does, one reply after the other."""

    def shell(command: Any) -> Any:
        return lambda request: call("shell", {"command": command(mouth), "justification": mouth.all})

    def one(name: str, arguments: Any) -> Any:
        return lambda request: call(name, arguments(mouth))

    return [
        shell(lambda m: ["bash", "-c", f"printf '%s\\n' {m.token} --token={m.token}; echo {m.token} >&2"]),
        shell(lambda m: ["printf", "%s", m.all]),
        # So much of it that its middle is left out, wherever that cuts.
        shell(lambda m: ["python3", "-c", f"print('y' * 5 + ('{m.token}' + ' ') * 20000)"]),
        shell(lambda m: ["env", f"TOKEN={m.token}", "printenv", "TOKEN"]),
        shell(lambda m: [f"/no/such/{m.token}"]),
        one("update_plan", lambda m: {"explanation": m.all, "plan": [{"step": m.token, "status": "pending"}]}),
        one("update_plan", lambda m: {"plan": m.token}),
        one(
            "apply_patch",
            lambda m: {"input": f"*** Begin Patch\n*** Add File: {m.token}.txt\n+{m.token}\n*** End Patch"},
        ),
        one("view_image", lambda m: {"path": m.token}),
        lambda request: call(mouth.token, {"x": mouth.all}),
        lambda request: call("update_plan", {"plan": []}, mouth.token),
        one("canvas_update", lambda m: {"html": f"<p>{m.all}</p>", "title": m.token}),
        one("canvas_update", lambda m: {"html": m.token, m.token: m.token}),
        one("ring", lambda m: {"say": m.all}),
        one("break_down", lambda m: {"say": m.token}),
        one("refuse", lambda m: {"say": m.token}),
        one("clock__echo", lambda m: {"text": m.all}),
        one("clock__env", lambda m: {}),
        one("clock__fail", lambda m: {"text": m.all}),
        one("clock__ask", lambda m: {"question": m.token}),
        one("conv_create", lambda m: {"user_instruction": m.all, "title": m.token}),
        lambda request: ScriptedReply(text=mouth.all),
        one("conv_history", lambda m: {"conversation_id": m.token}),
        lambda request: ScriptedReply(text=mouth.all, reasoning=mouth.all),
    ]


def tools(mouth: Mouth) -> list[tertulia.ToolDefinition]:
    def answer(who: Any, arguments: Any) -> Any:
        return arguments

    def break_down(who: Any, arguments: Any) -> Any:
        raise RuntimeError(mouth.all)

    def refuse(who: Any, arguments: Any) -> Any:
        raise NotFoundError(mouth.all)

    parameters = {"say": {"type": "string"}}
    return [
        tertulia.ToolDefinition(name, "Says it again.", parameters, f"x.{name}", "all", None, handler)
        for name, handler in (("ring", answer), ("break_down", break_down), ("refuse", refuse))
    ]


async def tell(end: str) -> None:
    mouth, porter = Mouth(), Porter(text="nothing yet")
    porter.tools = tools(mouth)

    def explode(request: Any) -> Any:
        raise RuntimeError(mouth.all)

    again = [lambda request: ScriptedReply(text=mouth.all)] * 3
    model = ScriptedModel([*script(mouth), *again, lambda request: fail(mouth.all), explode], chunk=20)
    settings = tertulia.Settings(
        model=model, providers=[porter], sandbox="danger-full-access", approval_policy="untrusted", network=True
    )
    async with Session.start(settings) as session:
        events = session.events(after=0, attend=True)
        agent = await session.open(agent=EMPLOYEE, title="an agent")
        mouth.token = str(session.parts.agent_registry.token(agent.id))
        sys.stdout.write(f"{mouth.token}\n{session.id}\n")
        sys.stdout.flush()
        # From now on its providers know the token, as a careless one might.
        command, *args = bare()
        server = tertulia.McpServerStdio("clock", command, args, {"MY_TOKEN": mouth.token, "PLAIN": mouth.all})
        porter.servers, porter.text = [server], mouth.all
        writing = asyncio.create_task(write_down(session, events))
        with contextlib.suppress(NotImplementedError):
            await converse(session, agent, mouth)
        await answers(session, agent.id, mouth)
        await asyncio.sleep(0)
        if end == "kill":
            await session.parts.bus.flush()
            await session.parts.journal.settle()
            os.kill(os.getpid(), signal.SIGKILL)
    await writing


async def converse(session: Session, agent: tertulia.Conversation, mouth: Mouth) -> None:
    async with session.approvals.answer_with(lambda request: "allow"):
        reply = await agent.message(mouth.all, sender=mouth.token)
        assert reply.status == "completed", reply
        await agent.set_context(title=mouth.token, user_instructions=mouth.all, base_instructions=mouth.all)
        await agent.message([{"type": "text", "text": mouth.all}])
        fork = await agent.fork()
        await fork.message(mouth.all)
        await agent.compact()
        assert [(await agent.message("fail")).status for _ in range(2)] == ["failed", "failed"]


async def answers(session: Session, agent: str, mouth: Mouth) -> None:
    """What operations answer, errors too."""
    host, data = Host(session.settings), []
    requests: list[tuple[str, dict[str, Any]]] = [
        *((name, {}) for name in ("conversation/list", "session/info", "canvas/list", "mcp/status", "approval/list")),
        *((name, {"conversation_id": agent}) for name in ("conversation/history", "conversation/context",
                                                         "conversation/tools", "canvas/get", "metrics/get")),
        *((name, {"conversation_id": mouth.token}) for name in ("conversation/history", "canvas/get", "canvas/clear")),
        ("task/get", {"task_id": mouth.token}),
        ("internal/validate_token", {"token": mouth.token}),
        ("internal/call", {"token": mouth.token, "tool": mouth.token}),
        ("internal/call", {"token": mouth.token, "tool": "ring", "arguments": {"say": mouth.all}}),
        ("internal/call", {"token": mouth.token, "tool": "refuse", "arguments": {"say": mouth.all}}),
        ("conversation/open", {"mcp_tool_allowlist": [mouth.token]}),
        ("conversation/open", {"agent": {"name": "-" + mouth.token}}),
        ("approval/resolve", {"approval_id": mouth.token, "decision": "allow"}),
        ("conversation/set_context", {"conversation_id": agent, "model": f"{mouth.token}/{mouth.token}"}),
        ("conversation/set_context", {"conversation_id": agent, "cwd": mouth.token}),
    ]  # fmt: skip
    for name, params in requests:
        try:
            data.append(msgspec.json.encode((await operate(host, session, name, params)).answer))
        except tertulia.TertuliaError as error:
            data.append(msgspec.json.encode([error.message, error.detail]))
    (TOLD / "answers").write_bytes(b"\n".join(data))
    (TOLD / "audit").write_bytes(msgspec.json.encode(list(session.parts.agent_registry.audit)))
    (TOLD / "reprs").write_text(
        repr(session.parts.agent_registry.context(agent)) + repr(session.parts.agent_registry._tokens)
    )


async def write_down(session: Session, events: Any) -> None:
    """Whatever a subscriber gets; what a server asks a person is refused."""
    with (TOLD / "events").open("wb", buffering=0) as file:
        async for event in events:
            file.write(msgspec.json.encode(event) + b"\n")
            if event.type == "elicitation_request":
                session.parts.command_services.elicitations.resolve(event.data.elicitation_id, "deny")


if __name__ == "__main__":
    TOLD.mkdir(exist_ok=True)
    load_sdk()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    asyncio.run(tell(sys.argv[1]))
