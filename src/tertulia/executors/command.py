"""An agent that is a program: run once a task, prompt in, steps out.

It runs unconfined by us, in its own sandbox and with the words for it that match our rights; its tree is ours to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from tertulia.errors import AgentError
from tertulia.executors.command_line import command_line, standard_input
from tertulia.executors.definition import ExecutorDefinition
from tertulia.executors.executor import Assignment, Ending, Failed, Interrupted, Parser, Step
from tertulia.executors.foreign_servers import servers_in_toml
from tertulia.executors.last_words import ErrorOutput, failure, not_started
from tertulia.executors.temporary_home import TemporaryHome, usual_place
from tertulia.protocol.usage import Usage
from tertulia.sandbox.runner import Command, CommandLimits, Confinement, Finished, Runner, Running

GRACE_S = 2.0
"""Between being asked to end and being killed, and for a program that has said all it had to say."""
MAX_UNREAD = 1_000
"""Steps that wait for us; the program waits too, then."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024

MakeParser = Callable[[Usage], Parser]
Spawn = Callable[[Coroutine[Any, Any, None], str], object]
"""Have something run beside us; see `scheduler/nursery.py`."""


class CommandExecutor:
    """Implements `Executor` for whatever a definition describes. Keeps nothing between runs."""

    def __init__(
        self,
        name: str,
        definition: ExecutorDefinition,
        runner: Runner,
        parser: MakeParser,
        environment: Mapping[str, str],
        spawn: Spawn,
        *,
        grace_s: float = GRACE_S,
    ) -> None:
        """`environment`: all that the program gets, its keys included, and nothing else that is ours."""
        self.name = name
        self.can_ask = definition.can_ask
        self.can_resume = definition.resume_with is not None and not definition.isolated_home
        self.identity = (name, *definition.command, usual_place(definition.home, environment))
        self._definition = definition
        self._runner = runner
        self._parser = parser
        self._environment = environment
        self._spawn = spawn
        self._grace_s = grace_s

    async def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """See `Executor`."""
        home = TemporaryHome() if assignment.private or self._definition.isolated_home else None
        try:
            async with aclosing(self._run(assignment, home)) as steps:
                async for step in steps:
                    yield step
        except AgentError as error:
            yield Failed(error.message, error.code)
        finally:
            if home is not None:
                home.remove()

    async def _run(self, assignment: Assignment, home: TemporaryHome | None) -> AsyncGenerator[Step, None]:
        heard = _Heard(self._parser(assignment.total))
        process = await self._runner.start(self._command(assignment, home), heard.feed, heard.errors.hear)
        try:
            heard.process = process
            self._spawn(heard.watch(process), f"executor {self.name}")
            while True:
                while heard.steps:
                    yield heard.steps.popleft()
                if heard.exited is not None:
                    break
                process.resume()
                await self._wait(heard, process)
            for step in heard.parser.end():
                yield self._judged(step, heard, heard.exited) if isinstance(step, Ending) else step
        finally:
            await self._end(process)

    async def _wait(self, heard: _Heard, process: Running) -> None:
        """For more. A program that has said how it ended, or that never stops talking, is ended by us."""
        if heard.flooded:
            await process.kill()
        over = heard.parser.ended
        try:
            async with asyncio.timeout(self._grace_s if over else None):
                await heard.more()
        except TimeoutError:
            await process.kill()

    async def _end(self, process: Running) -> None:
        """Asked first, then killed, with all that it started."""
        try:
            if process.finished is None:
                process.terminate()
                await process.wait(self._grace_s)
        finally:
            await process.kill()

    def _judged(self, ending: Ending, heard: _Heard, exited: Finished) -> Ending:
        """How the run ended, by what the agent said and by how its program did."""
        name, definition = self.name, self._definition
        never = not_started(name, definition, exited)
        if never is not None:
            return Failed(never)
        if heard.flooded:
            return Failed(f"{name} wrote more than {MAX_OUTPUT_BYTES:,} bytes and was stopped", "limit")
        match ending:
            case Failed(message, code):
                return Failed(failure(name, definition, message, exited, heard.errors), code)
            case Interrupted():
                sentence = failure(name, definition, "", exited, heard.errors)
                nonsense = heard.parser.passed_over
                told = f"; {nonsense:,} lines of its output made no sense" if nonsense else ""
                return Failed(sentence + told, "model_error" if exited.exit_code else "interrupted")
            case _ if exited.exit_code and not heard.parser.ended:
                return Failed(failure(name, definition, "", exited, heard.errors))
            case _:
                return ending

    def _command(self, assignment: Assignment, home: TemporaryHome | None) -> Command:
        environment = {**self._environment, **assignment.variables}
        if home is not None:
            environment = home.furnish(self._definition.home, environment)
        return Command(
            argv=command_line(self.name, self._definition, assignment, self._others(assignment.cwd)),
            cwd=assignment.cwd,
            # Two sandboxes, one in the other, mostly means that the inner one does not work.
            confinement=Confinement(mode="danger_full_access", limits=CommandLimits(cpu_s=None)),
            environment=environment,
            stdin=standard_input(self._definition, assignment),
            kept_output_bytes=0,
            temporary=None if home is None else home.path,
        )

    def _others(self, cwd: str) -> tuple[str, ...]:
        """MCP servers that the agent would start by itself. A temporary home has copies of the same settings."""
        home = self._definition.home
        if home is None or home.servers is None:
            return ()
        return servers_in_toml(usual_place(home, self._environment), home.servers, home.folder, cwd)


class _Heard:
    """What the program said so far. Fed by callbacks, read by the one who runs it."""

    __slots__ = ("_bytes", "_news", "errors", "exited", "parser", "process", "steps")

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.errors = ErrorOutput()
        self.steps: deque[Step] = deque()
        self.process: Running | None = None
        self.exited: Finished | None = None
        self._bytes = 0
        self._news = asyncio.Event()

    @property
    def flooded(self) -> bool:
        """Whether it said more than anybody can want to hear."""
        return self._bytes > MAX_OUTPUT_BYTES

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        self.steps.extend(self.parser.feed(data))
        if len(self.steps) > MAX_UNREAD and self.process is not None:
            self.process.pause()
        self._news.set()

    async def watch(self, process: Running) -> None:
        self.exited = await process.wait()
        self._news.set()

    async def more(self) -> None:
        """Until something was said since the last time, or the program is gone."""
        await self._news.wait()
        self._news.clear()
