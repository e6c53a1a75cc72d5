"""Runs agents that speak the Agent Client Protocol: one long-lived program for each conversation that they work for.

The program is not confined by our sandbox but by its own; commands and file changes that it requests from us run in
ours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from tertulia.errors import ModelError, TertuliaError, UnsupportedByBackendError
from tertulia.executors.acp.agent_process import AcpProcess, load_sdk
from tertulia.executors.acp.definition import AcpDefinition, AcpSandboxMode, fill_template, merge_tables
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.command.agent_home import (
    TemporaryHome,
    agent_home_folder,
    check_project_servers,
    servers_in_toml,
    strip_servers,
)
from tertulia.executors.command.command_line import (
    among_its_own,
    check_hosts,
    check_writable_directory,
    server_arguments,
    system_text,
    unconfined_command,
)
from tertulia.executors.command.failure_text import (
    failure_advice,
    failure_sentence,
    failures_as_steps,
    not_started_reason,
)
from tertulia.executors.executor import (
    STOP_S,
    Assignment,
    NativeSessionId,
    ProgramServices,
    Progress,
    RunFailed,
    RunFinished,
    RunInterrupted,
    Step,
)
from tertulia.protocol.conversation_fields import sandbox_to_wire
from tertulia.sandbox.runner import Command

SERVER = "tertulia"
"""The name that the agent knows our MCP server by."""
_MAX_VARIABLE = 100_000
"""The most bytes of a variable; the kernel's limit is a little higher."""
_GAP = "\n\n"
_NO_MODE = AcpSandboxMode()
_STARTS = "starts"
_STARTS_FOR_TOOLS = "starts again, because the tools of its conversation are not those that it has listed"


def sandbox_mode_of(name: str, definition: AcpDefinition, assignment: Assignment) -> AcpSandboxMode:
    """How the agent is held to its rights; UnsupportedByBackendError where it has no setting for them."""
    mode = assignment.rights.sandbox
    sandbox = definition.sandbox.get(mode)
    if sandbox is None and mode != "danger_full_access":
        raise UnsupportedByBackendError(
            f"{name} does not say how it is held to the sandbox mode {sandbox_to_wire(mode)}; say so in the table "
            "`sandbox` of its agent, or run it under danger-full-access"
        )
    check_hosts(name, assignment.rights)
    if mode == "workspace_write":
        check_writable_directory(name, assignment)
    return sandbox or _NO_MODE


def agent_variables(definition: AcpDefinition, assignment: Assignment) -> tuple[dict[str, str], str | None]:
    """(environment variables that the agent gets in addition, the system part that they hold)."""
    if definition.config is None:
        return {}, None
    variable, template = definition.config
    system = system_text(assignment)
    if len(json.dumps(system).encode("utf-8", "replace")) > _MAX_VARIABLE:
        system = ""
    return {variable: json.dumps(fill_template(template, system))}, system


def session_params(definition: AcpDefinition, sandbox: AcpSandboxMode, assignment: Assignment) -> dict[str, Any]:
    """The parameters of `session/new` and of `session/load`."""
    servers = [] if definition.server_args else _servers(assignment)
    params: dict[str, Any] = {"cwd": assignment.cwd, "mcpServers": servers}
    meta = merge_tables(fill_template(definition.meta, system_text(assignment)), sandbox.meta)
    return params | ({"_meta": meta} if meta else {})


def system_text_in_session(definition: AcpDefinition, assignment: Assignment, in_variable: str | None) -> str:
    """The system part that the session already has, given beside the prompt or before an earlier one."""
    if assignment.is_told_already or (definition.config is None and definition.hears_system):
        return system_text(assignment)
    # An agent reads its settings when a session starts, not when one is resumed.
    return in_variable or "" if assignment.resume is None else ""


def build_prompt(assignment: Assignment, system_before: str) -> str:
    """The prompt, with the system part before it where the session does not have that already."""
    system = system_text(assignment)
    return assignment.prompt if system in ("", system_before) else f"{system}{_GAP}{assignment.prompt}"


def _servers(assignment: Assignment) -> list[Mapping[str, Any]]:
    """The MCP servers that the agent gets: ours, or none."""
    if not assignment.server:
        return []
    program, *arguments = assignment.server
    variables = [{"name": name, "value": value} for name, value in assignment.variables.items()]
    return [{"name": SERVER, "command": program, "args": arguments, "env": variables}]


class _RunningAgent(msgspec.Struct, frozen=True, eq=False):
    """A running agent of one conversation, and the settings that it was started with."""

    process: AcpProcess
    cwd: str
    sandbox: AcpSandboxMode
    in_variable: str | None
    pid_namespace: bool
    server: tuple[str, ...]
    """The command of its MCP server. Another one has other tools than those that the agent has listed."""
    home: TemporaryHome | None = None

    def fits(
        self, assignment: Assignment, sandbox: AcpSandboxMode, in_variable: str | None, pid_namespace: bool
    ) -> bool:
        """Whether this agent can do the task; else another must be started, since its variable cannot be changed."""
        begins_alike = assignment.resume is not None or self.in_variable == in_variable
        started = (self.cwd, self.sandbox.meta, self.pid_namespace)
        return self.process.is_alive and started == (assignment.cwd, sandbox.meta, pid_namespace) and begins_alike


class AcpExecutor:
    """Implements `Executor`. It keeps the program running from task to task; `forget` ends the program."""

    can_ask = True
    can_resume = True

    def __init__(
        self,
        name: str,
        definition: AcpDefinition,
        services: ProgramServices,
    ) -> None:
        program = definition.program
        self.name = name
        self.identity = (name, *program.command, agent_home_folder(program.home, services.environment))
        self._definition = definition
        self._services = services
        self._idle_agents: dict[str, _RunningAgent] = {}
        """Agents that wait for their next task. A working agent is not listed: an abandoned task may still run.
        """

    def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """See `Executor`. On cancellation the agent is asked to stop, and killed if it does not."""
        return failures_as_steps(self.name, self._run(assignment))

    async def forget(self, conversation: str) -> None:
        """End the agent of a conversation that is closed or has another executor. Calling it twice has no effect."""
        agent = self._idle_agents.pop(conversation, None)
        if agent is not None:
            await self._end(agent, self._services.grace_s)

    async def close(self) -> None:
        """End every agent that waits for a task."""
        await asyncio.gather(*map(self.forget, list(self._idle_agents)))

    # ── one task ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        sandbox = sandbox_mode_of(self.name, self._definition, assignment)
        await asyncio.to_thread(load_sdk)
        agent, why = await self._idle_agent(assignment, sandbox)
        if agent is None:
            yield Progress(f"{self.name} {why} (it has {self._definition.start_timeout_s:g} s)")
            agent = await self._start_agent(assignment, sandbox)
        task: AcpTask | None = None
        try:
            try:
                session = await self._session(agent, assignment, sandbox)
            except ModelError as error:
                yield await self._failed(agent, error)
                return
            yield NativeSessionId(session)
            task = AcpTask(assignment.host)
            prompt = build_prompt(assignment, agent.process.system_text or "")
            agent.process.system_text = system_text(assignment) or agent.process.system_text
            self._services.spawn(agent.process.work(task, prompt), f"task of {self.name}")
            async for step in _steps(task):
                yield step
            yield task.ending or await self._failed(agent, task.failure or ModelError(""))
        finally:
            await self._leave(agent, assignment, task)

    async def _leave(self, agent: _RunningAgent, assignment: Assignment, task: AcpTask | None) -> None:
        """After a task, however it ended: stop what still runs, and keep the agent where it can be used again."""
        # An agent that had to be stopped, or that never started the task, gets no time to exit by itself.
        grace_s = self._services.grace_s if task is not None and task.is_over else 0
        stopped = False
        try:
            stopped = task is not None and (task.is_over or await self._stop(agent, task))
            if task is not None and self._is_remembered(task):
                assignment.acknowledged()
        finally:
            try:
                if task is not None:
                    await task.close()
            finally:
                await self._keep_or_end(agent, assignment, grace_s, stopped)

    def _is_remembered(self, task: AcpTask) -> bool:
        """Whether the agent's session holds the prompt, although it may have reported nothing of it."""
        return isinstance(task.ending, RunFinished | RunInterrupted) and not self._definition.forgets_stopped

    async def _keep_or_end(self, agent: _RunningAgent, assignment: Assignment, grace_s: float, stopped: bool) -> None:
        reusable = stopped and agent.process.is_alive and not assignment.private
        if reusable and assignment.conversation not in self._idle_agents:
            self._idle_agents[assignment.conversation] = agent
        else:
            await self._end(agent, grace_s)

    async def _stop(self, agent: _RunningAgent, task: AcpTask) -> bool:
        """Ask the agent to stop; returns whether it did so in time."""
        task.give_up()
        try:
            async with asyncio.timeout(STOP_S):
                await agent.process.cancel()
                await task.settle()
        except TimeoutError:
            return False
        return True

    # ── the program ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _idle_agent(self, assignment: Assignment, sandbox: AcpSandboxMode) -> tuple[_RunningAgent | None, str]:
        """The agent of this conversation, if it fits; else it is ended, and what is done instead is the second."""
        agent = self._idle_agents.pop(assignment.conversation, None)
        if agent is None:
            return None, _STARTS
        _, in_variable = agent_variables(self._definition, assignment)
        alone = among_its_own(self._definition.program, assignment)
        fits = agent.fits(assignment, sandbox, in_variable, alone) and not assignment.private
        if fits and agent.server == assignment.server:
            return agent, ""
        await self._end(agent, self._services.grace_s)
        return None, _STARTS_FOR_TOOLS if fits else _STARTS

    async def _start_agent(self, assignment: Assignment, sandbox: AcpSandboxMode) -> _RunningAgent:
        variables, in_variable = agent_variables(self._definition, assignment)
        alone = among_its_own(self._definition.program, assignment)
        home = TemporaryHome() if assignment.private or self._has_own_servers(assignment.cwd) else None
        start_s = self._definition.start_timeout_s
        process = AcpProcess(self.name, self._services.runner, self._services.spawn, start_s=start_s)
        agent = _RunningAgent(process, assignment.cwd, sandbox, in_variable, alone, assignment.server, home)
        await self._start(agent, assignment, variables)
        return agent

    async def _start(self, agent: _RunningAgent, assignment: Assignment, variables: Mapping[str, str]) -> None:
        try:
            await agent.process.start(await self._command(assignment, agent.home, variables))
        except ModelError as error:
            failed = await self._failed(agent, error)
            raise ModelError(failed.message) from None
        finally:
            if not agent.process.is_ready:
                await self._end(agent, 0)

    async def _session(self, agent: _RunningAgent, assignment: Assignment, sandbox: AcpSandboxMode) -> str:
        """Start or resume the agent's session for this task; returns its id."""
        process, resume = agent.process, assignment.resume
        if resume is None or resume != process.session:
            params = session_params(self._definition, sandbox, assignment)
            if resume is None:
                await process.begin(params)
            else:
                await process.take_up(resume, params)
            process.system_text = system_text_in_session(self._definition, assignment, agent.in_variable)
        if sandbox.mode is not None:
            # Set for each task: the agent may have changed the mode by itself.
            await process.set_mode(sandbox.mode)
        assert process.session is not None
        return process.session

    async def _command(
        self, assignment: Assignment, home: TemporaryHome | None, variables: Mapping[str, str]
    ) -> Command:
        program = self._definition.program
        environment = {**self._services.environment, **assignment.variables, **variables}
        if home is not None:
            environment = home.furnish(program.home, environment)
            if self._definition.starts_own_servers and program.home is not None:
                strip_servers(environment[program.home.variable], program.home)
        own = self._definition.own_servers
        if own is not None:
            environment |= await asyncio.to_thread(own.switched_off, environment, assignment.cwd)
        temporary = () if home is None else (home.path,)
        words = [*program.command, *program.args, *server_arguments(self._definition.server_args, assignment)]
        by_argument = self._definition.own_servers_by_argument
        if by_argument is not None:
            words += await asyncio.to_thread(by_argument.switched_off, environment, assignment.cwd)
        command = unconfined_command(tuple(words), assignment, environment, program, temporary)
        return msgspec.structs.replace(command, keep_stdin=True)

    def _has_own_servers(self, cwd: str) -> bool:
        """Whether the agent's own settings name MCP servers. It then gets a temporary home without them."""
        home = self._definition.program.home
        if not self._definition.starts_own_servers or home is None or home.servers is None:
            return False
        check_project_servers(cwd, home)
        place = agent_home_folder(home, self._services.environment)
        return bool(servers_in_toml(place, home.servers, home.folder, cwd))

    async def _failed(self, agent: _RunningAgent, error: TertuliaError) -> RunFailed:
        """Why the task failed, in one sentence: what the agent reported, or how its program ended, and what can be
        done.
        """
        pipe, program = agent.process.pipe, self._definition.program
        if not error.message:
            # The exit of the program says more, and is known after `close`.
            await agent.process.close(0)
        exited = pipe.exited
        if exited is not None and (never := not_started_reason(self.name, program, exited)) is not None:
            return RunFailed(never)
        if pipe.broken is not None:
            return RunFailed(f"{self.name} was stopped: {pipe.broken}", "limit")
        if not error.message and exited is not None:
            nonsense = f"; {pipe.passed_over:,} lines of its output made no sense" if pipe.passed_over else ""
            return RunFailed(failure_sentence(self.name, program, "", exited, pipe.last_words) + nonsense)
        tail = pipe.last_words
        message = f"{error.message} ({tail})" if tail and agent.process.session is None else error.message
        return RunFailed(
            message + failure_advice(program, f"log in {message}" if error.detail.get("log_in") else message),
            error.code,
        )

    async def _end(self, agent: _RunningAgent, grace_s: float) -> None:
        try:
            await agent.process.close(grace_s)
        finally:
            if agent.home is not None:
                agent.home.remove()


async def _steps(task: AcpTask) -> AsyncGenerator[Step, None]:
    """The steps of a task, until it is over and everything started for it has ended."""
    while True:
        while task.steps:
            yield task.steps.popleft()
        if task.is_over:
            break
        await task.more()
    await task.close()
    while task.steps:
        yield task.steps.popleft()
