"""A port that plays events and remembers what was called: for screens of sessions that would take long to make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from tertulia.protocol.events import Event
from tertulia.terminal.app import TerminalApp
from tertulia.testing import FakeClock
from tests.view.golden import events_of

NOW = 1_767_225_600.0 + 100.0
"""A hundred seconds after the first event that is played."""

RIGHTS = [
    {"field": "approval_policy", "value": "untrusted", "set_by": "session", "source": "flag --ask-for-approval"},
    {"field": "sandbox", "value": "workspace-write", "set_by": "session", "source": "default"},
    {"field": "network", "value": False, "set_by": "ancestor:root", "asked": True},
    {"field": "storage_policy", "value": {"ttl": 3600}, "set_by": "chain", "now": "none"},
    {"field": "writable_roots", "value": ["/home/ada/shop"], "set_by": "agent:reviewer"},
    {"field": "limits", "value": {"task_timeout_s": 5, "max_history_tokens": None}, "set_by": "session"},
]
ANSWERS: dict[str, Any] = {
    "session/info": {
        "session_id": "session",
        "root_conversation_id": "root",
        "version": "0.1.0",
        "policy": {"approval": "untrusted", "sandbox": "workspace-write", "network": False, "storage": "full"},
        "model": "openai/gpt-5.2",
        "mcp": [],
        "not_held": ["abstract sockets can be reached"],
        "sandbox_tier": "bubblewrap",
    },
    "rights/explain": {"conversation_id": "root", "rights": RIGHTS},
    "mcp/status": {"servers": [{"name": "fs", "status": "ready", "tools": 14}]},
    "mcp/refresh": {"servers": [{"name": "fs", "status": "ready", "tools": 15}]},
    "conversation/open": {"conversation_id": "fresh"},
    "conversation/fork": {"conversation_id": "fresh"},
    "conversation/interrupt": {"interrupted": True},
    "conversation/compact": {"compacted": False, "before_tokens": 1, "after_tokens": 1, "reason": "it is short"},
    "conversation/tools": {"tools": [{"name": "shell", "description": "Run a command.\nMore."}], "cache_key": "k"},
    "conversation/message": {"task_id": "t9"},
    "canvas/list": {"canvases": [{"conversation_id": "tester", "title": "Coverage"}]},
    "approval/grants": {"grants": []},
}


class PlayedPort:
    """Plays events, then waits until it is closed."""

    local = True

    def __init__(self, events: Iterable[Event] = (), answers: Mapping[str, Any] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = {**ANSWERS, **(answers or {})}
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        for event in events:
            self._queue.put_nowait(event)

    def play(self, *events: Event) -> None:
        """Let these happen now."""
        for event in events:
            self._queue.put_nowait(event)

    async def call(self, name: str, **params: Any) -> Any:
        """What was written down for this operation; an error is raised."""
        self.calls.append((name, params))
        answer = self._answers.get(name, {})
        if name == "rights/explain" and "command" in params:
            action = {"verdict": "ask", "because": "rm is not known to be safe", "set_by": "session", "sandbox": "ws"}
            return {**answer, "action": action}
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def events(self, after: int) -> AsyncIterator[Event]:
        """The events that are played."""
        while (event := await self._queue.get()) is not None:
            yield event

    async def close(self) -> None:
        """The session has ended."""
        self._queue.put_nowait(None)

    def called(self, name: str) -> list[dict[str, Any]]:
        """The parameters of every call of this operation."""
        return [params for called, params in self.calls if called == name]


def played_app(port: PlayedPort, now: float = NOW) -> TerminalApp:
    """An app that shows what a port plays, at a time that stands still."""

    async def connect() -> PlayedPort:
        return port

    return TerminalApp(connect, clock=FakeClock(now))


def played(*steps: Mapping[str, Any]) -> list[Event]:
    """Events from their short form, see `tests/view/golden.py`."""
    return events_of({"events": steps})


def opened(name: str, parent: str | None = None, task: str | None = None) -> dict[str, Any]:
    """A conversation is opened."""
    data = {
        "parent_id": parent,
        "title": None if name == "root" else name,
        "model": "openai/gpt-5.2",
        "backend": "native",
    }
    return {"type": "conversation_opened", "conversation": name, "task": task, "data": data}


BEGIN: list[dict[str, Any]] = [
    {
        "type": "session_configured",
        "data": {
            "root_conversation_id": "root",
            "protocol_version": "1",
            "version": "0.1.0",
            "model": "openai/gpt-5.2",
            "policy": {},
        },
    },
    opened("root"),
]


def wrote(name: str, text: str, task: str) -> list[dict[str, Any]]:
    """A person writes to a conversation, and its task begins."""
    data = {"item_id": f"i-{task}", "text": text}
    return [
        {"type": "task_started", "conversation": name, "task": task, "data": {"kind": "user"}},
        {"type": "user_message", "conversation": name, "task": task, "data": data},
    ]


def answered(name: str, text: str, task: str) -> list[dict[str, Any]]:
    """The model answers, and the task ends."""
    usage = {"input_tokens": 1_200, "cached_input_tokens": 900, "output_tokens": 80, "total_tokens": 1_280}
    return [
        {"type": "agent_message", "conversation": name, "task": task, "data": {"item_id": f"a-{task}", "text": text}},
        {
            "type": "token_count",
            "conversation": name,
            "task": task,
            "data": {"usage": usage, "context_window": 10_000, "cache_key": "k"},
        },
        {
            "type": "task_complete",
            "conversation": name,
            "task": task,
            "data": {"status": "completed", "last_assistant_message": text, "usage": usage},
        },
    ]


def delegated(caller: str, task: str, target: str, target_task: str) -> list[dict[str, Any]]:
    """A conversation asks a new one and waits for it."""
    call = {"call_id": f"c-{target}", "name": "conv_create", "arguments": {"title": target}}
    message = {"item_id": f"i-{target_task}", "text": f"Please, {target}.", "how": "delegated", "caller_id": caller}
    return [
        {"type": "tool_call_begin", "conversation": caller, "task": task, "data": call},
        opened(target, caller, task),
        {"type": "turn_aborted", "conversation": caller, "task": task, "data": {"reason": "replaced"}},
        {"type": "task_started", "conversation": target, "task": target_task, "data": {"kind": "target"}},
        {"type": "user_message", "conversation": target, "task": target_task, "data": message},
    ]


def asks(name: str, task: str, id: str = "q1", expires: str = "2026-01-01T00:02:21.000Z") -> dict[str, Any]:
    """A conversation asks whether a command may run."""
    data = {
        "approval_id": id,
        "kind": "exec",
        "conversation_id": name,
        "chain": ["root"],
        "title": "Run a command",
        "detail": "python -m pytest -q",
        "matches": ["python -m pytest -q"],
        "scopes": ["once", "conversation", "session"],
        "command": "python -m pytest -q",
        "cwd": "/home/ada/shop",
        "sandbox": "workspace-write, network off",
        "expires_at": expires,
    }
    return {"type": "approval_request", "conversation": name, "task": task, "data": data}


STORY: list[dict[str, Any]] = [
    *BEGIN,
    *wrote("root", "The basket's total is wrong when a customer buys two of a thing.", "t1"),
    {
        "type": "plan_update",
        "conversation": "root",
        "task": "t1",
        "data": {
            "plan": [
                {"step": "Read app.py", "status": "completed"},
                {"step": "Have the tests run", "status": "in_progress"},
            ]
        },
    },
    *delegated("root", "t1", "reviewer", "t2"),
    *answered("reviewer", "The change is **right**.", "t2"),
    {
        "type": "tool_call_end",
        "conversation": "root",
        "task": "t1",
        "data": {
            "call_id": "c-reviewer",
            "name": "conv_create",
            "success": True,
            "output": "right",
            "truncated": False,
            "duration_ms": 900,
        },
    },
    {"type": "task_started", "conversation": "root", "task": "t3", "data": {"kind": "continuation"}},
    *delegated("root", "t3", "tester", "t4"),
    {
        "type": "tool_call_begin",
        "conversation": "tester",
        "task": "t4",
        "data": {"call_id": "c9", "name": "shell", "arguments": {"command": ["pytest"]}},
    },
    asks("tester", "t4"),
    {"type": "mcp_server_status", "data": {"name": "fs", "status": "ready"}},
]
"""Three conversations: root waits for the tester, which asks whether a command may run."""


def many(count: int) -> list[dict[str, Any]]:
    """A root with so many conversations below it, every tenth of which works."""
    steps = [*BEGIN]
    for number in range(count):
        steps.append(opened(f"worker {number}", "root"))
        if number % 10 == 0:
            steps += wrote(f"worker {number}", "Work.", f"w{number}")
    return steps
