"""Chooses the store of a session and its rules. With `assembly` the only place that names a store."""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from tertulia.errors import NotFoundError, StorageError, TertuliaError
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import secrets_in_definition
from tertulia.models.catalog import ModelProvider
from tertulia.policy.redaction import Redactor, secrets_of
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.recorder import Recorder
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.rollout.store import RolloutStore
from tertulia.session.mcp.configured_servers import configured_servers
from tertulia.session.resume.recorded_state import RecordedState
from tertulia.session.resume.retention_sweep import RetentionSweeper, retention_of
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings


def create_record(
    settings: Settings,
    session_id: str,
    clock: Clock,
    environment: Environment,
    *,
    now: Clock | None = None,
    redactor: Redactor | None = None,
) -> Journal:
    """The record of a new session, written by the usual rules.

    `clock` says when it happened, `now` what has expired, where that is not the same.
    """
    redactor = redactor or redactor_of(settings, environment)
    return _record_in(_store(settings, session_id, now or clock, environment), settings, clock, redactor)


async def open_record(
    session_id: str, settings: Settings, clock: Clock, environment: Environment, redactor: Redactor | None = None
) -> tuple[Journal, RecordedState]:
    """Become the owner of a session's record, sweep it, and read it.

    On Busy, NotFound or StorageError nothing is owned.
    """
    if not is_session_id(session_id):
        raise NotFoundError(f"there is no session {session_id[:64]!r}: a session id is a UUID in small letters")
    store = _store(settings, session_id, clock, environment)
    if not _exists(store.place):
        raise NotFoundError(f"there is no session {session_id} ({store.place})")
    try:
        await _wait_for(store.claim)
        await _wait_for(partial(store.sweep, clock.now(), retention_of(settings).ttl_action))
        reader, past = RowReader(), RecordedState()
        await asyncio.to_thread(_read, Path(store.place), reader, past, spending=settings.budget is not None)
        past.identity()
    except BaseException:
        await _wait_for(store.close)
        raise
    return _record_in(store, settings, clock, redactor or redactor_of(settings, environment), reader.known), past


def _exists(place: str) -> bool:
    return os.path.lexists(place)


def _read(file: Path, reader: RowReader, past: RecordedState, *, spending: bool) -> None:
    from tertulia.rollout.sqlite.reader import SqliteReader

    rows = SqliteReader(file)
    try:
        past.read(reader.lines(rows.rows(brief=True)))
        # What was left out has numbers too, and none of them may be given out again.
        n, seq = rows.ends()
        reader.known.last_n = max(reader.known.last_n, n)
        past.last_seq = max(past.last_seq, seq)
        past.missing_records = rows.missing()
        if spending:
            past.spent = rows.spending()
        finished = rows.finished()
        for conversation, recorded in reader.known.conversations.items():
            if (state := past.conversations.get(conversation)) is not None:
                state.tasks = max(state.tasks, finished.get(recorded.n, 0))
    finally:
        rows.close()


async def _wait_for(act: Callable[[Callable[[Any], None]], object]) -> Any:
    """Wait for something that a store does; raises what it says went wrong."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    act(lambda result: None if answer.done() else answer.set_result(result))
    result = await answer
    if isinstance(result, TertuliaError):
        raise result
    return result


def _store(settings: Settings, session_id: str, clock: Clock, environment: Environment) -> RolloutStore:
    # Here and below: with its database, which a program that only imports us does not need.
    from tertulia.rollout.sqlite.sqlite_store import SqliteStore

    return SqliteStore(environment.home, session_id, clock, settings.durability)


def redactor_of(settings: Settings, environment: Environment) -> Redactor:
    """Knows the keys of the environment, of the configuration and of `tertulia login`, but for those in a keyring.

    Keys of a keyring, and tokens, are added when they are read or made.
    """
    has_servers = settings.mcp_servers or settings.project_servers
    servers = configured_servers(settings, environment).secrets if has_servers else ()
    return Redactor((*known_keys(settings, environment), *servers, *_executor_secrets(settings)))


def known_keys(settings: Settings, environment: Environment) -> Iterator[str]:
    """The keys of the environment, also where only a provider's table says that a variable holds one, and the stored
    ones that can be had without asking a keyring."""
    yield from secrets_of(environment.variables)
    if environment.names_network or settings.names_network:
        from tertulia.session.settings.network import proxies

        yield from proxies(settings, environment).secrets()
    for provider in cast("Mapping[str, ModelProvider]", settings.model_providers).values():
        if provider.env_key is not None:
            yield environment.variables.get(provider.env_key, "").strip()
    if settings.stored_keys and environment.keys_file.exists():
        from tertulia.policy.key_store import KeyStore

        # Keys that cannot be read are not used either; that is an error for the session that needs one.
        with suppress(StorageError):
            yield from KeyStore(environment.keys_file, environment.variables).keys_in_file()


def _executor_secrets(settings: Settings) -> Iterator[str]:
    """Keys in the tables of executors: the same kinds of values as for servers. What is no table has none."""
    for table in (*settings.executors.values(), *settings.acp.values()):
        members = _members(table)
        words, variables = members.get("args"), _members(members.get("env"))
        transport = Stdio(
            command="",
            args=tuple(map(str, cast("Sequence[object]", words) if isinstance(words, list | tuple) else ())),
            env={name: str(value) for name, value in variables.items()},
        )
        yield from secrets_in_definition(ServerDefinition(name="", transport=transport), {})


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _record_in(
    store: RolloutStore, settings: Settings, clock: Clock, redactor: Redactor, known: RecordState | None = None
) -> Recorder:
    return Recorder(store, clock, redactor.json, storage=settings.rights.storage_policy, known=known)


def progress_of(journal: Journal) -> int:
    """A number that grows as long as the journal's store makes progress."""
    return journal.store.progress if isinstance(journal, Recorder) else 0


def sweeper_of(
    journal: Journal, settings: Settings, clock: Clock, policies: Callable[[], Iterable[StoragePolicy]]
) -> RetentionSweeper | None:
    """Removes what expires while the session runs; None for a journal that stores nothing."""
    if not isinstance(journal, Recorder):
        return None
    return RetentionSweeper(journal.store, retention_of(settings), clock, policies)
