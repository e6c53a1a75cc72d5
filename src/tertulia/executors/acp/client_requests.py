"""Answers what an ACP agent requests from its client during a task: permission, files, terminals.

Translates between ACP and the executor's host, which decides what may be done. Everything done for the agent becomes a
step, whether or not the agent reports it too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, ClassVar, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError, MethodNotFoundError, NoApproverError, NotFoundError
from tertulia.executors.acp.updates import arguments_of, paths_of, whole_change
from tertulia.executors.executor import (
    ActionKind,
    CommandAct,
    ExecutorHost,
    FileChangeAct,
    PatchAct,
    PermissionQuestion,
    Step,
    ToolUseBegin,
    ToolUseEnd,
)
from tertulia.executors.json_output import read_argv, read_id, read_table, read_tables, read_text
from tertulia.executors.result_text import clip
from tertulia.sandbox.runner import CommandResult, RunningCommand

MAX_TERMINALS = 32
"""The most terminals that a task may have at once."""
MAX_KEPT = 1024 * 1024
"""Bytes of a terminal's output that are kept at most; also the limit for an agent that names none."""
_MAX_TITLE = 300
_LONG = 64 * 1024
"""Characters from which on a change is formatted in a thread."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_HARMLESS = ("read", "search", "think")

Params = Mapping[str, Any]
Tell = Callable[[Step], object]


class AgentTerminal:
    """A command that was started for the agent, with the last part of its output."""

    def __init__(self, argv: tuple[str, ...], limit: int) -> None:
        self.argv = argv
        self.running: RunningCommand
        self._limit = limit
        self._output = bytearray()
        self._cut = False

    def hear(self, data: bytes) -> None:
        """Add output; beyond the limit the oldest bytes are dropped."""
        self._output += data
        if len(self._output) > self._limit:
            del self._output[: len(self._output) - self._limit]
            self._cut = True

    def shown(self) -> tuple[str, bool]:
        """(the output, whether its beginning is missing). No character is cut in two."""
        output = bytes(self._output)
        if self._cut:
            output = output.lstrip(bytes(range(0x80, 0xC0)))
        return output.decode("utf-8", "replace"), self._cut


class ClientRequests:
    """Serves the requests of one task. `close` ends every command that was started for them."""

    def __init__(self, host: ExecutorHost | None, tell: Tell, whole_call: Callable[[Params], Params] = dict) -> None:
        """`whole_call`: completes a call with everything that the agent has reported of it before."""
        self._host = host
        self._tell = tell
        self._call_so_far = whole_call
        self._numbers = count(1)
        self._terminals: dict[str, AgentTerminal] = {}

    async def serve(self, method: str, params: Params) -> dict[str, Any]:
        """Answer a request; a TertuliaError refuses it."""
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFoundError(f"there is no {method:.80}")
        return await handler(self, params)

    async def close(self) -> None:
        """End every command that the task has started."""
        await asyncio.gather(*map(self._end, list(self._terminals)))

    @property
    def _needed_host(self) -> ExecutorHost:
        if self._host is None:
            raise NoApproverError("there is no approver to ask")
        return self._host

    # ── permission ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _permission(self, params: Params) -> dict[str, Any]:
        call, options = self._call_so_far(read_table(params.get("toolCall"))), read_tables(params.get("options"))
        question = await asyncio.to_thread(permission_question, call) if _is_long(call) else permission_question(call)
        consent = await self._needed_host.permit(question)
        # Always `once` where offered: only our approvals remember how long a yes holds.
        wanted = ["allow_once"] if consent.allowed else ["reject_once", "reject_always"]
        if consent.lasting:
            wanted.append("allow_always")
        for kind in wanted:
            for option in options:
                if option.get("kind") == kind and (chosen := read_id(option.get("optionId"))) is not None:
                    return {"outcome": {"outcome": "selected", "optionId": chosen}}
        return {"outcome": {"outcome": "cancelled"}}

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, params: Params) -> dict[str, Any]:
        text = await self._needed_host.read(_required(params, "path"))
        line, limit = _number(params, "line"), _number(params, "limit")
        if line is not None or limit is not None:
            lines = text.splitlines(keepends=True)
            first = max(0, (line or 1) - 1)
            text = "".join(lines[first : None if limit is None else first + limit])
        return {"content": text}

    async def _write(self, params: Params) -> dict[str, Any]:
        path, new = _required(params, "path"), _required(params, "content")
        name, done = f"write-{next(self._numbers)}", False
        act = PatchAct((FileChangeAct(path, "update"),))
        self._tell(ToolUseBegin(name, "write_text_file", {"path": path}, act))
        try:
            await self._needed_host.write(path, new, name)
            done = True
        finally:
            outcome = f"{len(new):,} characters written" if done else "not written"
            self._tell(ToolUseEnd(name, "write_text_file", {"path": path}, act, success=done, output=outcome))
        return {}

    # ── terminals ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _create(self, params: Params) -> dict[str, Any]:
        if len(self._terminals) >= MAX_TERMINALS:
            raise InvalidParamsError(f"{MAX_TERMINALS} terminals are open already; release one")
        words = _words(params)
        limit = min(_number(params, "outputByteLimit") or MAX_KEPT, MAX_KEPT)
        variables = _variables(params)
        terminal, name = AgentTerminal(words, limit), f"terminal-{next(self._numbers)}"
        terminal.running = await self._needed_host.start(
            words, read_text(params.get("cwd")), variables, terminal.hear, name
        )
        self._terminals[name] = terminal
        self._tell(ToolUseBegin(name, "terminal", {"command": list(words)}, CommandAct(words)))
        return {"terminalId": name}

    async def _output(self, params: Params) -> dict[str, Any]:
        terminal = self._terminal(params)
        output, cut = terminal.shown()
        finished = terminal.running.finished
        answer: dict[str, Any] = {"output": output, "truncated": cut}
        return answer if finished is None else answer | {"exitStatus": _status(finished)}

    async def _wait(self, params: Params) -> dict[str, Any]:
        finished = await self._terminal(params).running.wait()
        assert finished is not None
        return _status(finished)

    async def _kill(self, params: Params) -> dict[str, Any]:
        await self._terminal(params).running.kill()
        return {}

    async def _release(self, params: Params) -> dict[str, Any]:
        self._terminal(params)
        await self._end(cast(str, params["terminalId"]))
        return {}

    def _terminal(self, params: Params) -> AgentTerminal:
        terminal = self._terminals.get(read_text(params.get("terminalId")) or "")
        if terminal is None:
            raise NotFoundError("there is no such terminal")
        return terminal

    async def _end(self, name: str) -> None:
        terminal = self._terminals.pop(name)
        finished = await terminal.running.kill()
        output, act = terminal.shown()[0], CommandAct(terminal.argv)
        code = finished.exit_code
        arguments = {"command": list(terminal.argv)}
        self._tell(ToolUseEnd(name, "terminal", arguments, act, success=code == 0, output=output, exit_code=code))

    _handlers: ClassVar[Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]] = {
        "session/request_permission": _permission,
        "fs/read_text_file": _read,
        "fs/write_text_file": _write,
        "terminal/create": _create,
        "terminal/output": _output,
        "terminal/wait_for_exit": _wait,
        "terminal/kill": _kill,
        "terminal/release": _release,
    }


def permission_question(call: Params) -> PermissionQuestion:
    """The question for the policy or a person: everything the agent reports of the call, with its changes in full."""
    kind, title = call.get("kind"), read_text(call.get("title")) or "use a tool"
    doing = cast(ActionKind, kind) if kind in get_args(ActionKind) else "other"
    raw, parts = read_table(call.get("rawInput")), read_tables(call.get("content"))
    if doing in _HARMLESS and any(part.get("type") == "diff" for part in parts):
        # A call with a diff is judged as a change, whatever kind the agent calls it.
        doing = "edit"
    arguments = arguments_of(call) | {"title": title}
    encoded = msgspec.json.encode(arguments).decode()
    changes = "\n".join(filter(None, map(whole_change, parts)))
    # A call with a command is judged as a command, likewise.
    words = read_argv(raw.get("command")) or ((title,) if doing == "execute" else None)
    if words:
        more = encoded if raw.keys() - {"command"} else ""
        doing, detail = "execute", "\n".join(filter(None, (more, changes)))
    else:
        words = (doing, encoded, msgspec.json.encode(parts).decode()) if parts else (doing, encoded)
        detail = "\n".join(filter(None, (encoded, changes)))
    return PermissionQuestion(
        doing=doing,
        title=clip(title, _MAX_TITLE),
        detail=detail,
        words=words,
        paths=_paths(call, raw),
        call=read_id(call.get("toolCallId")),
    )


def _paths(call: Params, raw: Params) -> tuple[str, ...]:
    """Every path that the agent names anywhere in the call: the policy checks all of them."""
    named = filter(None, map(read_text, (raw.get("file_path"), raw.get("path"))))
    return tuple(dict.fromkeys((*paths_of(call, most=None), *named)))


def _is_long(call: Params) -> bool:
    texts = (
        read_text(part.get(name)) or "" for part in read_tables(call.get("content")) for name in ("oldText", "newText")
    )
    return sum(map(len, texts)) > _LONG


def _words(params: Params) -> tuple[str, ...]:
    program, arguments = _required(params, "command"), params.get("args")
    words = cast("list[object]", arguments) if isinstance(arguments, list) else []
    if not all(isinstance(word, str) for word in words):
        raise InvalidParamsError("args must be a list of texts")
    if words or len(program.split()) < 2:
        return (program, *cast("list[str]", words))
    # A command line in one word: many agents mean it for a shell.
    return ("/bin/sh", "-c", program)


def _variables(params: Params) -> dict[str, str]:
    """The requested variables. They become arguments of `env`, so a name that could be an option of it is refused."""
    pairs = [(read_text(entry.get("name")), read_text(entry.get("value"))) for entry in read_tables(params.get("env"))]
    for name, value in pairs:
        if name is None or value is None or _VARIABLE.fullmatch(name) is None or "\0" in value:
            raise InvalidParamsError(f"env: {name!r:.80} cannot be set")
    return cast("dict[str, str]", dict(pairs))


def _status(finished: CommandResult) -> dict[str, Any]:
    return {"exitCode": finished.exit_code} if finished.reason is None else {"exitCode": 127}


def _required(params: Params, name: str) -> str:
    text = read_text(params.get(name))
    if text is None:
        raise InvalidParamsError(f"{name} must be a text")
    return text


def _number(params: Params, name: str) -> int | None:
    value = params.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
