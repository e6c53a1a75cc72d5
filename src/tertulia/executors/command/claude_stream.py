"""Parses the output of `claude -p --output-format stream-json --verbose`, with every kind of line.

Particular to it: each block of a message is a line of its own; the result of a tool comes as a user message; a run may
have several results, of which the last counts; `is_error` says whether a result is a failure, its subtype does not;
usage is that of the run alone. Deltas come only with `--include-partial-messages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tertulia.executors import executor as x
from tertulia.executors.json_output import (
    MAX_LINE_BYTES,
    JsonlParser,
    Line,
    content_text,
    joined_texts,
    read_id,
    read_native_id,
    read_table,
    read_tables,
)
from tertulia.executors.result_text import result_text
from tertulia.models.http.stream_decoder import count_at, make_usage
from tertulia.protocol.items import Usage
from tertulia.protocol.tool_events import PlanStep

_QUIET = frozenset({"status", "thinking_tokens"})
"""System lines that only say that the agent is at work."""
_LIMITS = ("error_max_turns", "error_max_budget_usd")
_WRITERS = {"Write": "add", "Edit": "update", "MultiEdit": "update", "NotebookEdit": "update"}
_USES = ("tool_use", "server_tool_use")
_EXIT_CODE = re.compile(r"Exit code (\d{1,3})(?:\n|$)")
_MOST_MESSAGES = 64
_MOST_OPEN = 1_000


class ClaudeStream(JsonlParser):
    """Implements `executor.Parser` for the `stream-json` output of Claude."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(max_line_bytes)
        self._open: dict[str, x.ToolUseBegin] = {}
        self._blocks: dict[str, int] = {}
        self._streaming = ""

    def _understood(self, line: Line) -> Iterable[x.Step] | None:
        match line.get("type"):
            case "system":
                return _system(line)
            case "assistant":
                return self._assistant(line, read_table(line.get("message")))
            case "user":
                return self._results(line, read_tables(read_table(line.get("message")).get("content")))
            case "stream_event":
                return self._delta(line, read_table(line.get("event")))
            case "result":
                return self._result(line)
            case _:
                return None

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, line: Line, message: Line) -> Iterable[x.Step] | None:
        blocks, message_id = read_tables(message.get("content")), read_id(message.get("id"))
        if not blocks or message_id is None:
            return None
        if line.get("is_api_error_message") is True:
            # Not an answer. The result says later whether the run ended with this error.
            return [x.Notice(content_text(blocks))]
        self._ending = x.RunInterrupted()
        steps: list[x.Step] = []
        for block in blocks:
            step = self._block(
                block, f"{message_id}:{self._next(message_id)}", line.get("parent_tool_use_id") is not None
            )
            if step is None:
                return [*steps, x.ForeignOutput(line)]
            steps.append(step)
        return steps

    def _next(self, message: str) -> int:
        """The position of the next block of a message."""
        place = self._blocks.pop(message, 0)
        self._blocks[message] = place + 1
        if len(self._blocks) > _MOST_MESSAGES:
            del self._blocks[next(iter(self._blocks))]
        return place

    def _block(self, block: Line, name: str, of_another: bool) -> x.Step | None:
        """The step of one block; None for an unknown one, and for the text of a subagent, which is not the answer."""
        match block:
            case {"type": "text", "text": str() as words} if not of_another:
                return x.AgentText(name, words)
            case {"type": "thinking", "thinking": str() as words} if not of_another:
                return x.Thought(name, words)
            case {"type": kind, "id": str() as call_id, "name": str() as tool} if kind in _USES and read_id(call_id):
                return self._begun(call_id, tool, block.get("input"))
            case {"type": "web_search_tool_result", "tool_use_id": str() as call_id} if call_id in self._open:
                return self._done(self._open.pop(call_id), block)
            case _:
                return None

    def _begun(self, call_id: str, tool: str, arguments: object) -> x.ToolUseBegin:
        """The begin of a tool use. Only so many are remembered; the end of another one is kept as foreign output."""
        act = _act(tool, read_table(arguments))
        begin = x.ToolUseBegin(
            call_id, f"{act.server}__{act.tool}" if isinstance(act, x.McpCallAct) else tool, arguments, act
        )
        self._open[call_id] = begin
        if len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]
        return begin

    def _results(self, line: Line, blocks: list[Line]) -> Iterable[x.Step] | None:
        steps: list[x.Step] = []
        for block in blocks:
            begin = self._open.pop(str(block.get("tool_use_id")), None)
            if block.get("type") != "tool_result" or begin is None:
                return [*steps, x.ForeignOutput(line)]
            done = self._done(begin, block)
            plan = _plan(begin) if done.success else None
            steps += [done] if plan is None else [plan, done]
        return steps or None

    def _done(self, begin: x.ToolUseBegin, block: Line) -> x.ToolUseEnd:
        output = content_text(block.get("content"))
        failed = block.get("is_error") is True
        code = _exit_code(output, failed) if isinstance(begin.act, x.CommandAct) else None
        return x.ToolUseEnd(begin.id, begin.name, begin.arguments, begin.act, not failed, output, code)

    def _delta(self, line: Line, event: Line) -> Iterable[x.Step] | None:
        if line.get("parent_tool_use_id") is not None:
            return []
        match event:
            case {"type": "message_start", "message": {"id": str() as message_id}}:
                self._streaming = message_id if read_id(message_id) else ""
                return []
            case {"type": "content_block_delta", "index": int() as place, "delta": {"text": str() as words}}:
                return [x.AgentDelta(f"{self._streaming}:{place}", words)]
            case {"type": "content_block_delta", "index": int() as place, "delta": {"thinking": str() as words}}:
                return [x.ThoughtDelta(f"{self._streaming}:{place}", words)]
            case {"type": str()}:
                # Anything else that is streamed comes again as a whole.
                return []
            case _:
                return None

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _result(self, line: Line) -> Iterable[x.Step]:
        # With an output schema the result is a table, which is the answer as it is.
        text = None if line.get("result") is None else result_text(line.get("result"))
        if line.get("is_error") is True or (text is None and line.get("subtype") != "success"):
            message = text or joined_texts(line.get("errors"))
            code = "limit" if line.get("subtype") in _LIMITS else "model_error"
            self._ending = x.RunFailed(message or f"the agent failed: {line.get('subtype')!r:.80}", code)
        else:
            self._ending = x.RunFinished(text)
        return [x.UsageReport(_usage(line.get("usage")))]


def _system(line: Line) -> Iterable[x.Step] | None:
    match line.get("subtype"):
        case "init":
            session_id = read_native_id(line.get("session_id"))
            return None if session_id is None else [x.NativeSessionId(session_id)]
        case "api_retry":
            numbers = (count_at(line, name) for name in ("attempt", "max_retries"))
            return [x.Notice("the model could not be reached and is asked again ({} of {})".format(*numbers))]
        case str() as subtype if subtype in _QUIET:
            return []
        case _:
            return None


def _usage(counts: object) -> Usage:
    cached = count_at(counts, "cache_read_input_tokens")
    fresh = count_at(counts, "input_tokens") + count_at(counts, "cache_creation_input_tokens")
    thinking = count_at(counts, "output_tokens_details", "thinking_tokens")
    return make_usage(fresh + cached, cached, count_at(counts, "output_tokens"), thinking)


# ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────────


def _act(tool: str, arguments: Line) -> x.ToolAct:
    """The kind of a tool use, where there is one."""
    match tool, arguments:
        case "Bash", {"command": str() as command}:
            return x.CommandAct(("bash", "-c", command))
        case (("WebSearch" | "web_search"), {"query": str() as query}):
            return x.WebSearchAct(query)
        case _, ({"file_path": str() as path} | {"notebook_path": str() as path}) if tool in _WRITERS:
            return x.PatchAct((x.FileChangeAct(path, "add" if _WRITERS[tool] == "add" else "update"),))
        case _ if tool.startswith("mcp__") and tool.count("__") > 1:
            _, server, name = tool.split("__", 2)
            return x.McpCallAct(server, name)
        case _:
            return None


def _plan(begin: x.ToolUseBegin) -> x.AgentPlan | None:
    if begin.name != "TodoWrite":
        return None
    steps: list[PlanStep] = []
    for entry in read_tables(read_table(begin.arguments).get("todos")):
        match entry:
            case {"content": str() as step, "status": ("pending" | "in_progress" | "completed") as status}:
                steps.append(PlanStep(step, status))
            case _:
                return None
    return x.AgentPlan(tuple(steps))


def _exit_code(output: str, failed: bool) -> int | None:
    if not failed:
        return 0
    match = _EXIT_CODE.match(output)
    return int(match[1]) if match else None
