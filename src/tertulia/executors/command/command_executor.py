"""Runs an executor that is a command: the program is started once for each task, prompt in, steps out.

The program is confined by its own sandbox, with arguments that match our rights, not by ours; we end it with all its
children. A parser reads what it prints: `PlainText` here, those of other formats beside this file.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext

from msgspec.structs import replace

from tertulia.executors.command.agent_home import (
    TemporaryHome,
    agent_home_folder,
    memory_file,
    memory_folder,
    servers_in_toml,
    settings_layer_file,
)
from tertulia.executors.command.command_line import command_line, standard_input, system_text, unconfined_command
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.command.failure_text import ErrorOutput, failure_sentence, failures_as_steps, not_started_reason
from tertulia.executors.executor import (
    STOP_S,
    AgentDelta,
    AgentText,
    Assignment,
    ForeignOutput,
    Parser,
    ProgramServices,
    RunEnd,
    RunFailed,
    RunFinished,
    RunInterrupted,
    Step,
)
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import Usage
from tertulia.protocol.records import MAX_COST, escape_cost
from tertulia.sandbox.runner import Command, CommandResult, RunningCommand

UNREAD_BYTES = 65_536
"""Bytes of output that may wait to be read; beyond that the program is paused."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
MAX_STEPS = 1_000_000
MAX_NONSENSE = 100_000
"""The most lines of one run that may be no JSON."""

MakeParser = Callable[[Usage], Parser]
_TEXT_ID = "text"


class CommandExecutor:
    """Implements `Executor` for any program that a definition describes. Keeps nothing between runs."""

    def __init__(
        self, name: str, definition: ExecutorDefinition, parser: MakeParser, services: ProgramServices
    ) -> None:
        self.name = name
        self.can_ask = definition.can_ask
        self.can_resume = definition.resume_with is not None and not definition.isolated_home
        self.identity = (name, *definition.command, agent_home_folder(definition.home, services.environment))
        self._definition = definition
        self._parser = parser
        self._services = services

    def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """See `Executor`. On cancellation the program is ended."""
        return failures_as_steps(self.name, self._prepare_and_run(assignment))

    async def _prepare_and_run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        home: TemporaryHome | None = None
        try:
            home = TemporaryHome() if assignment.private or self._definition.isolated_home else None
            environment = {**self._services.environment, **assignment.variables}
            if home is not None:
                environment = home.furnish(self._definition.home, environment)
            system = system_text(assignment)
            with (
                memory_folder() if system else nullcontext("") as folder,
                settings_layer_file(self._definition, environment, system, folder) as layer,
            ):
                file = memory_file(folder, "system", system)
                words = command_line(
                    self.name, self._definition, assignment, self._own_servers(assignment.cwd), file, layer
                )
                stdin = standard_input(self._definition, assignment, file, layer)
                temporary = tuple(filter(None, (None if home is None else home.path, folder)))
                command = replace(
                    unconfined_command(words, assignment, environment, self._definition, temporary), stdin=stdin
                )
                async with aclosing(self._run(assignment, command)) as steps:
                    async for step in steps:
                        yield step
        finally:
            if home is not None:
                home.remove()

    async def forget(self, conversation: str) -> None:
        """Do nothing: nothing is kept between two runs."""

    async def _run(self, assignment: Assignment, command: Command) -> AsyncGenerator[Step, None]:
        output = _OutputBuffer(self._parser(assignment.total))
        process = await self._services.runner.start(command, output.feed, output.errors.hear)
        try:
            output.process = process
            self._services.spawn(output.watch(process), f"executor {self.name}")
            while True:
                while output.unread:
                    for step in await output.read():
                        yield step
                if output.exited is not None:
                    break
                process.resume()
                await self._wait(output, process)
            for step in await output.parser.end():
                yield self._judged(step, output, output.exited) if isinstance(step, RunEnd) else step
        finally:
            await self._end(process)

    async def _wait(self, output: _OutputBuffer, process: RunningCommand) -> None:
        """Wait for more output. A program that does not exit after it reported its end, or that writes too much, is
        killed.
        """
        if output.too_much:
            await process.kill()
        try:
            async with asyncio.timeout_at(output.leaves_by(self._services.grace_s)):
                await output.more()
        except TimeoutError:
            await process.kill()

    async def _end(self, process: RunningCommand) -> None:
        """Ask the program to end, then kill it with all that it started."""
        try:
            if process.finished is None:
                process.terminate()
                await process.wait(min(STOP_S, self._services.grace_s))
        finally:
            await process.kill()

    def _judged(self, ending: RunEnd, output: _OutputBuffer, exited: CommandResult) -> RunEnd:
        """How the run ended, judged by what the agent reported and by the exit of its program."""
        name, definition = self.name, self._definition
        never = not_started_reason(name, definition, exited)
        if never is not None:
            return RunFailed(never)
        if output.too_much:
            return RunFailed(f"{name} wrote more than {output.too_much} and was stopped", "limit")
        match ending:
            case RunFailed(message, code):
                return RunFailed(failure_sentence(name, definition, message, exited, output.errors.last_lines()), code)
            case RunInterrupted():
                sentence = failure_sentence(name, definition, "", exited, output.errors.last_lines())
                nonsense = output.parser.passed_over
                unreadable = f"; lines of its output that made no sense: {nonsense:,}" if nonsense else ""
                return RunFailed(sentence + unreadable, "model_error" if exited.exit_code else "interrupted")
            case _ if exited.exit_code and not output.parser.ended:
                return RunFailed(failure_sentence(name, definition, "", exited, output.errors.last_lines()))
            case _:
                return ending

    def _own_servers(self, cwd: str) -> tuple[str, ...]:
        """Names of the MCP servers in the agent's own settings; a temporary home has copies of the same settings."""
        home = self._definition.home
        if home is None or home.servers is None:
            return ()
        return servers_in_toml(agent_home_folder(home, self._services.environment), home.servers, home.folder, cwd)


class _OutputBuffer:
    """The output of the program that waits to be read. Callbacks fill it, the executor reads it."""

    __slots__ = (
        "_bytes", "_leaves_by", "_news", "_steps", "_unread_bytes", "errors", "exited", "parser", "process", "unread",
    )  # fmt: skip

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.errors = ErrorOutput()
        self.unread: deque[bytes] = deque()
        self.process: RunningCommand | None = None
        self.exited: CommandResult | None = None
        self._bytes = 0
        self._steps = 0
        self._unread_bytes = 0
        self._leaves_by: float | None = None
        self._news = asyncio.Event()

    @property
    def too_much(self) -> str:
        """The limit that the program exceeded, as text; empty while it has not."""
        counted = (
            (self._bytes, MAX_OUTPUT_BYTES, "bytes"),
            (self._steps, MAX_STEPS, "events"),
            (self.parser.passed_over, MAX_NONSENSE, "lines that make no sense"),
        )
        return next((f"{limit:,} {what}" for number, limit, what in counted if number > limit), "")

    def leaves_by(self, grace_s: float) -> float | None:
        """The loop time by which the program must have exited, set when it reports its end; None before that."""
        if not self.parser.ended:
            self._leaves_by = None
        elif self._leaves_by is None:
            self._leaves_by = asyncio.get_running_loop().time() + grace_s
        return self._leaves_by

    def feed(self, data: bytes) -> None:
        self.unread.append(data)
        self._bytes += len(data)
        self._unread_bytes += len(data)
        if self.process is not None and self._unread_bytes >= UNREAD_BYTES:
            self.process.pause()
        self._news.set()

    async def read(self) -> list[Step]:
        """The steps of the oldest output that was not read yet."""
        data = self.unread.popleft()
        self._unread_bytes -= len(data)
        steps = await self.parser.feed(data)
        # The reader of the steps may never wait for anything: let other tasks run.
        await asyncio.sleep(0)
        self._steps += len(steps)
        return steps

    async def watch(self, process: RunningCommand) -> None:
        self.exited = await process.wait()
        self._news.set()

    async def more(self) -> None:
        """Wait for new output, or for the program's end."""
        await self._news.wait()
        self._news.clear()


class PlainText:
    """The parser of an executor that writes plain text: all of it is the answer. The exit code says whether it failed.

    Text beyond the limit is dropped, and a step says how much.
    """

    def __init__(self, *, max_bytes: int = MAX_TEXT_BYTES) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Kept as bytes: Python caches the UTF-8 of a text that an event also holds, and both would stay until the end.
        self._pieces: deque[bytes] = deque()
        self._room = max_bytes
        self._escapes = 0
        self._dropped = 0

    @property
    def passed_over(self) -> int:
        """Always 0: any line is text."""
        return 0

    @property
    def ended(self) -> bool:
        """Always False: plain text has no mark for its end."""
        return False

    async def feed(self, chunk: bytes) -> list[Step]:
        """The characters that these bytes complete."""
        return self._add(chunk, final=False)

    async def end(self) -> list[Step]:
        """The last steps, with the whole answer."""
        steps = self._add(b"", final=True)
        # Each piece is released as soon as it is decoded: the answer may be long.
        answer = "".join([self._pieces.popleft().decode() for _ in range(len(self._pieces))]).strip()
        steps += [AgentText(_TEXT_ID, answer)] if answer else []
        steps += [ForeignOutput({"dropped_bytes": self._dropped})] if self._dropped else []
        return [*steps, RunFinished(answer or None)]

    def _add(self, chunk: bytes, *, final: bool) -> list[Step]:
        data = chunk[: self._room]
        self._room -= len(data)
        self._dropped += len(chunk) - len(data)
        piece = self._decode(data, final)
        self._escapes += escape_cost(piece)
        if self._escapes > MAX_COST:
            # The limit is reached: nothing from here on is taken.
            self._room, self._dropped, piece = 0, self._dropped + len(data), ""
        self._pieces.append(piece.encode())
        return [AgentDelta(_TEXT_ID, piece)] if piece else []
