"""The card of a running session, and the messages about it; also the interface to sessions of other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from tertulia.session.answers import Answer


class ProcessInfo(Answer, frozen=True):
    """The process that a session runs in."""

    pid: int
    program: str
    """What it was started as: `exec`, `app-server`, `terminal` …"""


class SessionCard(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """A session that runs, in a few numbers."""

    session_id: str
    where: Literal["here", "elsewhere"]
    """Whether it runs in the process that answers, or in another one."""
    process: ProcessInfo | None = None
    title: str | None = None
    preview: str | None = None
    """The beginning of its first message."""
    cwd: str | None = None
    model: str | None = None
    state: Literal["idle", "running", "asking"]
    """`asking`: a person is asked something."""
    running: int
    """The number of tasks that run."""
    questions: int
    conversations: int
    """How many of them are open."""
    tokens: int
    """Of all its requests to models, those of its earlier lives included."""
    cost_usd: float | None = None
    """Of the requests whose price is known."""
    started_at: str
    last_active_at: str


class HostAnswer(Answer, frozen=True):
    """`host/subscribe`: the sessions that run now; what changes comes as notifications `host_event`."""

    sessions: list[SessionCard]


class HostEvent(Answer, frozen=True):
    """The notification `host_event`: a session began, is another than before, or has ended."""

    type: Literal["session_opened", "session_changed", "session_closed"]
    session: SessionCard


class OtherSessions(Protocol):
    """The sessions that other processes of this user run."""

    async def cards(self) -> list[SessionCard]:
        """Those that run now, with `where` `elsewhere`. One that does not answer in time is left out."""
        ...

    def follow(self, tell: Callable[[HostEvent], None]) -> Callable[[], None]:
        """Call `tell`, on the loop's thread, for each of them that begins, changes or ends.

        Returns:
            What ends that. It is called once.
        """
        ...
