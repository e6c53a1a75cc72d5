"""An agent that is a program: run once a task, prompt in, steps out.

It runs unconfined by us, in its own sandbox and with the words for it that match our rights; its tree is ours to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress

from tertulia.errors import AgentError, SandboxError
from tertulia.executors.command_line import command_line, standard_input
from tertulia.executors.definition import ExecutorDefinition
from tertulia.executors.executor import Assignment, Ending, Failed, Finished, Interrupted, Parser, Step
from tertulia.executors.last_words import ErrorOutput, failure, not_started
from tertulia.executors.temporary_home import TemporaryHome, usual_place
from tertulia.protocol.usage import Usage
from tertulia.sandbox.runner import Command, CommandLimits, Confinement, Runner, Running
from tertulia.sandbox.runner import Finished as Exited

GRACE_S = 2.0
"""Between being asked to end and being killed, and for a program that has said all it had to say."""
MAX_UNREAD = 1_000
"""Steps that wait for us; the program waits too, then."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024

MakeParser = Callable[[Usage], Parser]


class CommandExecutor:
    """Implements `Executor` for whatever a definition describes. Keeps nothing between runs."""

    def __init__(
        self,
        name: str,
        definition: ExecutorDefinition,
        runner: Runner,
        parser: MakeParser,
        environment: Mapping[str, str],
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
        self._grace_s = grace_s

    async def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """See `Executor`."""
        home = TemporaryHome() if assignment.private or self._definition.isolated_home else None
        try:
            command = self._command(assignment, home)
            talk = _Listening(self._parser(assignment.total))
            process = await self._runner.start(command, talk.feed, talk.errors.hear)
        except AgentError as error:
            _remove(home)
            yield Failed(error.message, error.code)
            return
        except BaseException:
            _remove(home)
            raise
        try:
            talk.process = process
            async for step in self._steps(talk, process):
                yield step
        finally:
            await self._end(process, home)

    async def _steps(self, talk: _Listening, process: Running) -> AsyncGenerator[Step, None]:
        watching = asyncio.get_running_loop().create_future()
        exited = await _told_when_gone(process, talk, self._grace_s)
        del watching, exited
        yield Interrupted()
