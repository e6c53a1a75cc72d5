"""How each setting is read: in wire spelling or as an object, into the one form that the rest relies on.

Every refusal is an InvalidParams that names the setting. Values of tables are not repeated in it: they may hold
secrets.
"""

from __future__ import annotations

import os
import os.path
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast, get_args

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.view import NamedView, view_from_wire
from tertulia.models.catalog import (
    ModelPrice,
    ModelProvider,
    fallback_models_from_wire,
    price_from_wire,
    provider_from_wire,
)
from tertulia.policy.approval_policy import approval_from_wire
from tertulia.policy.host_rules import network_from_wire
from tertulia.policy.limits import Limits, limits_from_wire
from tertulia.policy.orders import normal_roots
from tertulia.policy.shell_environment import shell_environment_from_wire
from tertulia.protocol.conversation_fields import CONVERSATION_FIELDS, Structured, Switch, Words, sandbox_from_wire
from tertulia.protocol.inputs import check_text
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.storage import storage_from_wire
from tertulia.rollout.sweep.retention import retention_from_wire
from tertulia.sandbox.runner import TierChoice

if TYPE_CHECKING:
    from tertulia.mcp.config.project_server import ProjectServer

_ABOUT_PROJECTS = {"project_hooks", "project_servers", "sources"}
PYTHON_ONLY = frozenset({"buffers", "cwd", "begins_in", "is_broker", "providers", "unattended", *_ABOUT_PROJECTS})
"""Settings that cannot be set in a file."""

MAX_CLOSE_TIMEOUT_S = 86_400
MAX_SLOTS = 1_000

_MAX_SHOWN = 20
"""Of mistakes in one file."""


def parse_setting(name: str, value: object) -> Any:
    """The value of a known setting in its parsed form. A parsed value is its own parsed form."""
    return _PARSERS[name](name, value)


def is_file_setting(name: str) -> bool:
    """Whether there is a setting of this name that a file can hold."""
    return name in _PARSERS and name not in PYTHON_ONLY


def check_names(names: Iterable[str], source: str) -> None:
    """Refuse what is not a setting that a file can hold, and say of each which one may have been meant."""
    known = sorted(_PARSERS.keys() - PYTHON_ONLY)
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    # Imported here: most files have no mistake.
    from tertulia.session.settings.codex_settings import CODEX_NOTES

    shown, rest = unknown[:_MAX_SHOWN], unknown[_MAX_SHOWN:]
    hints = [f"there is no setting {name!r:.80}; {name_hint(name, known, CODEX_NOTES)}" for name in shown]
    lines = [*hints, f"and {len(rest)} more"] if rest else hints
    raise InvalidParamsError(f"{source}: " + "\n  ".join(lines))


def _model(name: str, value: object) -> object:
    if value is None or (isinstance(value, str) and value) or hasattr(value, "stream"):
        return value
    raise InvalidParamsError(f"{name} must be 'provider/model' or a model wire, not {value!r}")


def _provider_name(name: str, value: object) -> str:
    if isinstance(value, str) and value and "/" not in value and value.isprintable():
        return value
    raise InvalidParamsError(f"{name} must be the name of a provider, such as openai, not {value!r:.80}")


def _buffers(name: str, value: object) -> object:
    if not (hasattr(value, "text") and hasattr(value, "write")):
        raise InvalidParamsError(f"{name} must be an editor's Buffers, not {type(value).__name__}")
    return value


_switch = Switch().parse


def _optional(parser: Callable[[str, object], object]) -> Callable[[str, object], object]:
    return lambda name, value: None if value is None else parser(name, value)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max:
        return float(value)
    raise InvalidParamsError(f"{name} must be a positive number of seconds, not {value!r}")


def _seconds_or_zero(name: str, value: object) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else _seconds(name, value)


def _close_timeout(name: str, value: object) -> float:
    seconds = _seconds(name, value)
    if seconds > MAX_CLOSE_TIMEOUT_S:
        raise InvalidParamsError(f"{name} must be at most {MAX_CLOSE_TIMEOUT_S:,} seconds, not {value!r}")
    return seconds


def _sequence(name: str, value: object) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidParamsError(f"{name} must be a list")
    return tuple(cast("list[Any]", value))


def _list_of(name: str, value: object, what: str, is_one: Callable[[Any], bool]) -> tuple[Any, ...]:
    """A list whose entries are all of one kind; `what`: their name, for the refusal."""
    entries = _sequence(name, value)
    if not all(map(is_one, entries)):
        raise InvalidParamsError(f"{name} must be a list of {what}")
    return entries


def _tools(name: str, value: object) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        raise InvalidParamsError(f"{name} must be a list; web search is tools_web_search_request = true")
    return _list_of(name, value, "functions, tools, or names of installed plug-ins", _is_tool)


def _is_tool(entry: object) -> bool:
    return isinstance(entry, str) or callable(entry) or hasattr(entry, "spec")


def _strings(name: str, value: object) -> tuple[str, ...]:
    return _list_of(name, value, "strings", lambda entry: isinstance(entry, str))


def _roots(name: str, value: object) -> tuple[str, ...]:
    # Links are followed once, here: what is compared as a name below a root must also lie there.
    return normal_roots(map(os.path.realpath, normal_roots(_strings(name, value))))


def _directory(name: str, value: object) -> str:
    path = str(value) if isinstance(value, str | PurePath) else ""
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidParamsError(f"{name} must be an absolute path, not {value!r}")
    # The model and every client are told of it.
    return check_text(path, name)


def _directories(name: str, value: object) -> str:
    """Absolute ones, with colons between them."""
    folders = value.split(os.pathsep) if isinstance(value, str) else [value]
    return os.pathsep.join(_directory(name, folder) for folder in folders if folder != "")


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{name} must be a table")
    table = dict(cast("Mapping[Any, Any]", value))
    if not all(isinstance(key, str) for key in table):
        raise InvalidParamsError(f"{name} must be a table with names for keys")
    return table


def _tables(name: str, value: object) -> dict[str, Any]:
    table = _table(name, value)
    return {key: _table(f"{name}.{key}", entry) for key, entry in table.items()}


def _servers(name: str, value: object) -> dict[str, Any]:
    # Checked here and kept as written: a later layer may add to a table. What a server is called is checked when it
    # is started, because a bad name concerns that server only (S000-31).
    servers = _table(name, value)
    for key, entry in servers.items():
        if not isinstance(entry, ServerDefinition):
            # Imported here, as below, by programs that have such tables.
            from tertulia.mcp.config.server_table import read_table

            read_table(f"{name}.{key[:64]}", entry)
    return servers


def _project_servers(name: str, value: object) -> tuple[ProjectServer, ...]:
    from tertulia.mcp.config.project_server import ProjectServer

    what = "servers that were read from a project's files"
    return _list_of(name, value, what, lambda entry: isinstance(entry, ProjectServer))


def _views(name: str, value: object) -> dict[str, NamedView]:
    table = _table(name, value).items()
    return {key: entry if isinstance(entry, NamedView) else view_from_wire(key, entry) for key, entry in table}


def _slots(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SLOTS:
        raise InvalidParamsError(f"{name} must be a whole number from 1 to {MAX_SLOTS:,}, not {value!r:.80}")
    return value


def _executors(name: str, value: object) -> dict[str, Any]:
    from tertulia.executors.command.definition import RESERVED, executors_from_wire
    from tertulia.executors.prompt.history_prompt import parse_history_settings

    def check(tables: dict[str, Any]) -> None:
        executors_from_wire(tables)
        parse_history_settings(tables.get(RESERVED, {}))

    return _as_written(_tables(name, value), check)


def _as_written(table: dict[str, Any], check: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The table without a change, after a check: a later layer may add to it, and a context shows it."""
    if table:
        check(table)
    return table


def _agents(name: str, value: object) -> dict[str, Any]:
    for key, entry in _table(name, value).items():
        if not isinstance(entry, Mapping):
            raise InvalidParamsError(
                f"{name}.{key:.80} must be a table that sets up an agent of that name; how many there may be and "
                "how deep they ask one another is limits.max_conversations and limits.max_interrupt_chain_depth"
            )
    if tables := _tables(name, value):
        from tertulia.session.settings.agent_table import ConfiguredAgents

        ConfiguredAgents(tables)
    return tables


def _agent(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParamsError(f"{name} must be the name of one of [agents.NAME], not {value!r:.80}")
    return value


def _shell_environment(name: str, value: object) -> dict[str, Any]:
    return _as_written(_table(name, value), shell_environment_from_wire)


def _masks(name: str, value: object) -> dict[str, tuple[str, ...]]:
    table = _table(name, value)
    if not table:
        return {}
    from tertulia.session.settings.masks_table import parse_masks

    return parse_masks(name, table, _strings)


def _retention(name: str, value: object) -> dict[str, Any]:
    return _as_written(_table(name, value), retention_from_wire)


def _checkpoints(name: str, value: object) -> bool | dict[str, Any]:
    if isinstance(value, bool):
        return value
    from tertulia.session.settings.checkpoint_table import checkpoints_from_wire

    return _as_written(_table(name, value), checkpoints_from_wire)


def _telemetry(name: str, value: object) -> dict[str, Any]:
    if table := _table(name, value):  # what parses it is loaded where it is set
        from tertulia.session.tracing.telemetry import telemetry_from_wire

        telemetry_from_wire(table)
    return table


def _notify(name: str, value: object) -> tuple[str, ...] | dict[str, Any]:
    notify = _strings(name, value) if not isinstance(value, Mapping) else _table(name, cast("object", value))
    if notify:
        from tertulia.session.notifications.notify_table import notify_from_wire

        notify_from_wire(notify)
    return notify


def _hooks(name: str, value: object) -> dict[str, Any]:
    if tables := _tables(name, value):
        from tertulia.session.hooks.hook_table import hooks_from_wire

        hooks_from_wire(tables)
    return tables


def _budget(name: str, value: object) -> dict[str, Any]:
    from tertulia.policy.session_budget import budget_from_wire

    return _as_written(_table(name, value), budget_from_wire)


def _proxy(name: str, value: object) -> dict[str, Any]:
    from tertulia.protocol.network.access import access_from_table

    return _as_written(_table(name, value), access_from_table)


def _terminal(name: str, value: object) -> dict[str, Any]:
    if table := _table(name, value):
        from tertulia.session.settings.terminal_table import terminal_from_wire

        terminal_from_wire(table)
    return table


def _providers(name: str, value: object) -> dict[str, ModelProvider]:
    tables = _table(name, value)
    if not tables:
        return {}
    # Imported here: few settings have one.
    from tertulia.models.provider_spelling import our_spelling

    return {key: provider_from_wire(key, our_spelling(key, table)) for key, table in tables.items()}


def _prices(name: str, value: object) -> dict[str, ModelPrice]:
    return {key: price_from_wire(key, entry) for key, entry in _table(name, value).items()}


def parse_limits(value: object, below: Limits) -> Limits:
    """The limits that are named, and the rest from `below`."""
    return value if isinstance(value, Limits) else limits_from_wire(_table("limits", value), below)


def _field_parsers() -> Iterator[tuple[str, Callable[[str, Any], Any]]]:
    """The parsers of switches and words in the table of conversation fields."""
    for row in CONVERSATION_FIELDS:
        if row.setting is not None and not isinstance(row.kind, Structured):
            yield row.name, _optional(row.kind.parse) if row.default is None else row.kind.parse


_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict(_field_parsers()),
    "model": _model,
    "model_provider": _optional(_provider_name),
    "fallback_models": lambda _, value: fallback_models_from_wire(value),
    "model_prices": _prices,
    "model_providers": _providers,
    "session_sockets": _switch,
    "stored_keys": _switch,
    "budget": _optional(_budget),
    "proxy": _optional(_proxy),
    "ca_file": _optional(_directory),
    "ca_dir": _optional(_directories),
    "approval_policy": lambda _, value: approval_from_wire(value),
    "begins_in": _optional(lambda _, value: sandbox_from_wire(value)),
    "network": lambda _, value: value if isinstance(value, bool) else network_from_wire(value),
    "writable_roots": _optional(_roots),
    "storage_policy": lambda _, value: storage_from_wire(value),
    "mcp_servers": _servers,
    "mcp_views": _views,
    "project_servers": _project_servers,
    "limits": lambda _, value: parse_limits(value, Limits()),
    "shell_environment": _shell_environment,
    "masks": _masks,
    "allow_home_workspace": _switch,
    "sandbox_tier": Words(get_args(TierChoice)).parse,
    "retention": _retention,
    "durability": Words(("normal", "full")).parse,
    "checkpoints": _checkpoints,
    "notify": _notify,
    "hooks": _hooks,
    "project_hooks": _sequence,
    "executors": _executors,
    "acp": _tables,
    "agents": _agents,
    "agent": _optional(_agent),
    "providers": _sequence,
    "tools": _tools,
    "buffers": _optional(_buffers),
    "on_tool_conflict": Words(("error", "skip", "dedupe")).parse,
    "slots": _slots,
    "max_running_tasks": _optional(_slots),
    "close_timeout_s": _close_timeout,
    "approval_timeout_s": _seconds,
    "approval_ttl_s": _optional(_seconds),
    "project_grant_ttl_s": _seconds_or_zero,
    "tool_timeout_s": _seconds,
    "cwd": _optional(_directory),
    "telemetry": _telemetry,
    "tui": _terminal,
    "unattended": _switch,
    "is_broker": _switch,
    "sources": _table,
}
