"""Conversations that ACP agents work for: who there is, and what each is connected with. Made when first needed."""

from __future__ import annotations

from collections.abc import Mapping

from tertulia.conversation.backend import Backend
from tertulia.conversation.executor_backend import ExecutorBackend, SystemPart
from tertulia.conversation.executor_host import TaskExecutorHost
from tertulia.executors.acp.acp_executor import AcpExecutor
from tertulia.executors.acp.definition import AcpDefinition
from tertulia.executors.prompt.history_settings import HistorySettings
from tertulia.scheduler.nursery import Nursery
from tertulia.session.agent_door import AgentDoor
from tertulia.session.standing_door import StandingDoor
from tertulia.session.workshop import Workshop


class AcpBackends:
    """Makes them."""

    def __init__(self, workshop: Workshop, nursery: Nursery, continuity: HistorySettings, door: AgentDoor) -> None:
        self._workshop = workshop
        self._nursery = nursery
        self._continuity = continuity
        self._door = door
        self._standing = StandingDoor(lambda: door.parts)
        workshop.guests.add(self._standing)

    def make(self, name: str, definition: AcpDefinition, environment: Mapping[str, str], system: SystemPart) -> Backend:
        """One of them, for all conversations of the session. `environment`: all that its program gets."""
        place = self._workshop.place
        executor = AcpExecutor(name, definition, self._workshop.sandbox, environment, self._nursery.start)
        self._workshop.guests.add(executor, name)
        return ExecutorBackend(
            executor,
            self._continuity,
            definition.program.resuming,
            roots=lambda rights: place.confinement(rights).writable_roots,
            system=system,
            server=self._standing.open,
            variables=self._door.variables,
            host=lambda floor, run: TaskExecutorHost(floor, place, name, run),
        )
