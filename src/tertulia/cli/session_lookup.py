"""Finds the stored session or conversation that a user names, and resumes it under the present settings."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.events import Event
from tertulia.rollout.sqlite.session_files import is_session_id, sessions_folder
from tertulia.rollout.sqlite.session_index import find_files, latest_session, list_sessions
from tertulia.session.conversations import ROOT
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings, Settings

LAST = "The newest session of this directory; where it has none, the newest of all."
"""What `--last` means, for every verb that has it."""
MIN_PREFIX = 4
_ID_PREFIX = re.compile(r"[0-9a-f-]+")
_SHOWN = 4
SHOWN_ID = 8
"""Characters of an id that are shown where a person does not copy it."""
_LIST = "`tertulia sessions ls`"


def with_session_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the command takes `[ID]` as `which` and `--last` as `last`."""
    command = click.option("--last", is_flag=True, help=LAST)(command)
    return click.argument("which", metavar="[ID]", required=False)(command)


def find_stored_session(loaded: LoadedSettings, which: str | None, *, last: bool) -> str:
    """The id of the session that is named by its id, a unique beginning of it (4 characters or more), or --last."""
    home = loaded.environment.home
    if (which is None) != last:
        raise click.UsageError(
            "give the ID of a session or --last, not both"
            if last
            else "which session? Give its ID or --last; `tertulia sessions ls` shows them"
        )
    if which is None:
        return _last_session(loaded)
    if is_session_id(which):
        return find_files(home, which).session_id
    if not _ID_PREFIX.fullmatch(which):
        raise InvalidParamsError(
            f"{which[:40]!r} is no session: an ID has only digits, a to f and `-`; {_LIST} shows those that there are"
        )
    if len(which) < MIN_PREFIX:
        raise InvalidParamsError(
            f"{which!r} is too short for a session: give at least {MIN_PREFIX} characters of its ID; {_LIST} shows it"
        )
    return _unique_match([entry.id for entry in list_sessions(home) if entry.id.startswith(which)], which, home)


def _last_session(loaded: LoadedSettings) -> str:
    """The newest of this directory. Where there is none, the newest of all, and standard error says where it works."""
    home, directory = loaded.environment.home, loaded.settings.cwd or "."
    newest = latest_session(home, directory)
    if newest is None:
        raise NotFoundError(f"there is no stored session yet in {sessions_folder(home)}")
    if newest.works_elsewhere(directory):
        # Imported here: most sessions are found where they are looked for.
        from tertulia.rollout.sqlite.summaries import summary_of

        note = f" no session of {directory} is stored; {newest.id[:SHOWN_ID]}, the newest of all, works in"
        notes = TerminalOutput(sys.stderr, loaded.environment.variables)
        notes.line(("note", "yellow"), f"{note} {summary_of(home, newest).cwd}")
    return newest.id


def _unique_match(fitting: list[str], beginning: str, home: Path) -> str:
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise NotFoundError(
            f"no session in {sessions_folder(home)} begins with {beginning}; `tertulia sessions ls` shows them"
        )
    shown = ", ".join(fitting[:_SHOWN]) + (", …" if len(fitting) > _SHOWN else "")
    raise InvalidParamsError(f"{len(fitting)} sessions begin with {beginning} ({shown}); give more of the one you mean")


def find_open_conversation(session: Session, word: str) -> str:
    """The id of the open conversation that is named by `root`, its id, or the beginning of it."""
    ids = [conversation.id for conversation in session.conversations()]
    if word == ROOT or word in ids or len(word) < MIN_PREFIX:
        return session.conversation(word).id
    fitting = [id for id in ids if id.startswith(word)]
    if len(fitting) > 1:
        raise InvalidParamsError(
            f"{len(fitting)} conversations begin with {word[:40]!r}; give more of the one you mean"
        )
    # The session raises the right error for one that is closed or unknown.
    return session.conversation(fitting[0] if fitting else word).id


async def restart_events(session: Session) -> AsyncGenerator[Event]:
    """What has happened since the session was resumed: what was closed, and what could not be restored."""
    last = session.activity.last_seq
    if session.activity.began_after < last:
        async for event in session.events(after=session.activity.began_after):
            yield event
            if event.seq == last:
                break


continue_flag = click.option(
    "continues", "--continue", is_flag=True, help='Let tasks go on that a crash cut, where on_restart = "continue".'
)
"""The flag of verbs that resume a session."""


class ResumeRequest(msgspec.Struct, frozen=True):
    """A stored session to resume, with the settings for it."""

    session_id: str
    settings: Settings
    cwd: str | None = None
    """The new working directory of the root; None leaves it."""
    continues: bool = False
    """Whether tasks that a crash cut go on; they begin with `session.activity.go_on`."""

    @classmethod
    def of(
        cls, flags: GlobalFlags, loaded: LoadedSettings, session_id: str, *, continues: bool = False
    ) -> ResumeRequest:
        """A request with these settings, but the session's own model and directory unless flags name others."""
        settings = loaded.settings
        if not loaded.provenance.get("model", "").startswith(("flag", "-c")):
            settings = replace(settings, model=None)
        if "cwd" in flags.values:
            return cls(session_id, settings, settings.cwd, continues)
        return cls(session_id, replace(settings, cwd=None), continues=continues)

    def unattended(self) -> ResumeRequest:
        """The same request for a run at which no person is."""
        return replace(self, settings=replace(self.settings, unattended=True))

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        """The resumed session, closed at the end."""
        host = Host(self.settings)
        try:
            yield await self.begin(host)
        finally:
            await host.close()

    async def begin(self, host: Host) -> Session:
        """Resume the session in a host. If its model is not available any more, the error says what can be done."""
        try:
            session = await host.resume(self.session_id, waits=False, continue_tasks=self.continues)
        except InvalidParamsError as error:
            if self.settings.model is not None:
                raise
            raise InvalidParamsError(
                f"{error.message}; the session's own model is used unless -m names another"
            ) from None
        if self.cwd is not None:
            await session.root.set_context(cwd=self.cwd)
        return session
