"""The backends of a session besides the native one, by name. Each is made when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial

from tertulia.conversation.backend import Backend
from tertulia.conversation.executor_backend import ExecutorBackend, SystemPart, no_server
from tertulia.conversation.executor_host import TaskExecutorHost
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import NATIVE
from tertulia.errors import InvalidParamsError
from tertulia.executors.acp.acp_executor import AcpExecutor
from tertulia.executors.acp.definition import AcpDefinition
from tertulia.executors.acp.presets import acp_agents_from_wire
from tertulia.executors.command.claude_stream import ClaudeStream
from tertulia.executors.command.codex_jsonl import CodexJsonl
from tertulia.executors.command.command_executor import CommandExecutor, MakeParser, PlainText
from tertulia.executors.command.definition import RESERVED, ExecutorDefinition, OutputFormat, executors_from_wire
from tertulia.executors.executor import Executor, ExecutorHost, ProgramServices, ResumeSettings
from tertulia.executors.prompt.history_prompt import HistorySettings, parse_history_settings
from tertulia.policy.shell_environment import ShellEnvironment
from tertulia.protocol.conversation_fields import SandboxMode
from tertulia.protocol.name_hints import near_names
from tertulia.scheduler.nursery import Nursery
from tertulia.session.agents.tool_server import AgentToolServers
from tertulia.session.command_services import CommandServices
from tertulia.session.parts import SessionParts
from tertulia.session.settings.plugins import EXECUTOR_PREFIX, plugin_executor


class AcpBackendFactory:
    """Makes the backends of ACP agents."""

    def __init__(
        self,
        command_services: CommandServices,
        nursery: Nursery,
        continuity: HistorySettings,
        tool_servers: AgentToolServers,
    ) -> None:
        self._command_services = command_services
        self._nursery = nursery
        self._continuity = continuity
        self._tool_servers = tool_servers
        command_services.resources.add(tool_servers)

    def make(self, name: str, definition: AcpDefinition, environment: Mapping[str, str], system: SystemPart) -> Backend:
        """Make one, for all conversations of the session. `environment`: every variable that its program gets."""
        place = self._command_services.place
        services = ProgramServices(self._command_services.sandbox, environment, self._nursery.start)
        executor = AcpExecutor(name, definition, services)
        self._command_services.resources.add(executor, name)
        return ExecutorBackend(
            executor,
            self._continuity,
            definition.program.resuming,
            roots=lambda rights, worktree: place.confinement(rights, worktree).writable_roots,
            system=system,
            server=self._tool_servers.open_for_conversation,
            variables=self._tool_servers.variables,
            host=lambda scope, run: TaskExecutorHost(scope, place, name, run),
        )


_PARSERS: Mapping[OutputFormat, MakeParser] = {
    "text": lambda _: PlainText(),
    "codex-jsonl": CodexJsonl,
    "claude-stream-json": lambda _: ClaudeStream(),
}

MakeBackend = Callable[[], Backend]


class _KnownBackends(dict[str, bool]):
    """Backends by name. One of an installed package is added when its name is first used."""

    def __init__(self, admit: Callable[[str], None]) -> None:
        super().__init__({NATIVE: True})
        self._admit = admit

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name.startswith(EXECUTOR_PREFIX) and not super().__contains__(name):
            self._admit(name)
        return super().__contains__(name)


class Backends:
    """All that a session has, and whether each can ask a person."""

    def __init__(self, around: Callable[[Executor], Backend]) -> None:
        """`around`: makes the backend of an executor of an installed package."""
        self.can_ask: dict[str, bool] = _KnownBackends(self._admit_plugin)
        """By name; in the order in which they are listed."""
        self.sandboxes: dict[str, Collection[SandboxMode]] = {}
        """By name: the sandbox modes for which its definition has settings."""
        self._makers: dict[str, MakeBackend] = {}
        self._made: dict[str, Backend] = {}
        self._around = around

    def add(self, name: str, make: MakeBackend, *, can_ask: bool, sandboxes: Collection[SandboxMode]) -> None:
        """Add a backend that is made when its name is first used."""
        self.can_ask[name] = can_ask
        self.sandboxes[name] = sandboxes
        self._makers[name] = make

    def _admit_plugin(self, name: str) -> None:
        """The backend of an installed package that a conversation names.

        The package itself must respect the assignment's rights.
        """
        executor = plugin_executor(name)
        self._makers[name] = lambda: self._around(executor)
        self.can_ask[name] = executor.can_ask

    def find(self, conversation: ConversationState) -> Backend:
        """The backend of this conversation; InvalidParams where it does not exist any more."""
        name = conversation.terms.backend
        if name not in self._made:
            if name not in self.can_ask or name not in self._makers:
                near = near_names(name, self._makers, 1)
                raise InvalidParamsError(
                    f"backend {name!r:.80} is not there any more; " + (f"there is {near[0]}" if near else "set another")
                )
            self._made[name] = self._makers[name]()
        return self._made[name]


def backends_for(parts: SessionParts) -> Backends:
    """The backends that the settings name, and those that need no settings."""
    settings, environment, nursery = parts.settings, parts.environment, parts.nursery
    history = settings.executors.get(RESERVED, {})
    continuity = parse_history_settings(history)
    definitions = {
        name: definition.for_user(os.geteuid()) for name, definition in executors_from_wire(settings.executors).items()
    }
    acp_definitions = acp_agents_from_wire(settings.acp)
    command_services, tool_servers = parts.command_services, AgentToolServers(parts)
    backends = Backends(lambda executor: _plugin_backend(executor, continuity, command_services, tool_servers))

    def agent(name: str, definition: ExecutorDefinition) -> Backend:
        variables = child_environment(definition, environment.variables)
        services = ProgramServices(command_services.sandbox, variables, nursery.start)
        executor = CommandExecutor(name, definition, _PARSERS[definition.output], services)
        return ExecutorBackend(
            executor,
            continuity,
            definition.resuming,
            roots=lambda rights, worktree: command_services.place.confinement(rights, worktree).writable_roots,
            system=_additions,
            server=tool_servers.open_for_task if definition.server else no_server,
            variables=tool_servers.variables,
            host=partial(host, name) if definition.permission_tool else _no_host,
        )

    def host(name: str, scope: TaskScope, run: str) -> ExecutorHost:
        made = TaskExecutorHost(scope, command_services.place, name, run)
        tool_servers.answer_questions(scope.conversation.id, made)
        return made

    for name, definition in definitions.items():
        make = partial(agent, name, definition)
        backends.add(name, make, can_ask=definition.can_ask, sandboxes=definition.sandbox)
    acp = AcpBackendFactory(command_services, nursery, continuity, tool_servers)

    def acp_backend(name: str, described: AcpDefinition) -> Backend:
        return acp.make(name, described, child_environment(described.program, environment.variables), _additions)

    for name, described in acp_definitions.items():
        backends.add(name, partial(acp_backend, name, described), can_ask=True, sandboxes=described.sandbox)
    return backends


def _no_host(scope: TaskScope, run: str) -> None:
    """For a program that asks nothing."""


def _plugin_backend(
    executor: Executor, continuity: HistorySettings, command_services: CommandServices, tool_servers: AgentToolServers
) -> Backend:
    return ExecutorBackend(
        executor,
        continuity,
        ResumeSettings(),
        roots=lambda rights, worktree: command_services.place.confinement(rights, worktree).writable_roots,
        system=_additions,
        server=no_server,
        variables=tool_servers.variables,
    )


def child_environment(definition: ExecutorDefinition, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of an agent: the harmless variables that commands get, and those that its definition names."""
    named = {name: variables[name] for name in definition.env_vars if name in variables}
    return {**ShellEnvironment().build(variables), **named, **definition.env}


def _additions(conversation: ConversationState) -> tuple[str, ...]:
    """What context providers gave this conversation's agent."""
    agent = conversation.terms.agent
    return () if agent is None else tuple(addition.text for addition in agent.additions)
