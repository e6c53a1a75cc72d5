"""Threads as Codex clients see them: what is known of one, and the turns in it, from a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tertulia.errors import NotFoundError
from tertulia.history.segment import is_user_request
from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.narrowing import Rights
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Reasoning,
    Summary,
    ToolCall,
    ToolOutput,
    UserMessage,
    readable_arguments,
)
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.server.codex import items as i
from tertulia.server.codex.active_turn import turn_object
from tertulia.server.codex.items import CodexItem
from tertulia.version import __version__

PREVIEW = 200
_NO_IDS: Mapping[str, str] = MappingProxyType({})


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread without its turns."""

    id: str
    model: str
    cwd: str
    created: float
    updated: float
    preview: str = ""
    name: str | None = None
    forked_from: str | None = None
    ephemeral: bool = False
    status: dict[str, Any]


def thread_object(about: ThreadSummary, turns: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """A thread, in Codex's spelling."""
    return {
        "id": about.id,
        "sessionId": about.id,
        "forkedFromId": about.forked_from,
        "parentThreadId": None,
        "preview": about.preview,
        "name": about.name,
        "ephemeral": about.ephemeral,
        "historyMode": "legacy",
        "projectId": None,
        "model": about.model,
        "modelProvider": model_provider(about.model),
        "createdAt": int(about.created),
        "updatedAt": int(about.updated),
        "status": about.status,
        "path": None,
        "cwd": about.cwd,
        "cliVersion": __version__,
        "source": "appServer",
        "gitInfo": None,
        "turns": list(turns),
    }


def turn_objects(items: Iterable[Item], cwd: str, ids: Mapping[str, str] = _NO_IDS) -> list[dict[str, Any]]:
    """Each message of a person, and all that followed it.

    A turn is named by its message, unless `ids` has another name for that.
    """
    turns: list[dict[str, Any]] = []
    calls: dict[str, tuple[list[CodexItem], int]] = {}
    names = _TurnIds(ids)
    for item in items:
        if (name := names.of(item)) is None and not turns and _shows(item):
            name = item.id
        if name is not None and not (turns and turns[-1]["id"] == name):
            turns.append({**turn_object(name, "completed"), "itemsView": "full"})
        if not turns:
            continue
        shown: list[CodexItem] = turns[-1]["items"]
        if isinstance(item, ToolCall):
            calls[item.call_id] = shown, len(shown)
            shown.append(i.call_item(item.call_id, item.name, readable_arguments(item), cwd))
        elif isinstance(item, ToolOutput):
            if (place := calls.pop(item.call_id, None)) is not None:
                where, at = place
                where[at] = i.with_outcome(where[at], _end(item))
        else:
            shown.extend(_message_items(item))
    return turns


def round_number(items: Iterable[Item], turn_id: str, ids: Mapping[str, str] = _NO_IDS) -> int:
    """The number of a turn's last message among all of a person, from 1. NotFound where there is none of that name."""
    names = _TurnIds(ids)
    named = [name for item in items if (name := names.of(item)) is not None]
    if turn_id not in named:
        raise NotFoundError(f"there is no turn {turn_id[:64]!r} in this thread")
    return len(named) - named[::-1].index(turn_id)


class _TurnIds:
    """To which turn each message of a person belongs. What was put in while a turn ran here has no name of its own."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self._ids = ids
        self._runs_here: str | None = None

    def of(self, item: Item) -> str | None:
        """None for whatever a person did not say."""
        if not is_user_request(item):
            return None
        self._runs_here = self._ids.get(item.id, self._runs_here)
        return self._runs_here or item.id


def thread_preview(items: Iterable[Item]) -> str:
    """What a thread began with."""
    requests = (item.text for item in items if isinstance(item, UserMessage) and is_user_request(item))
    return " ".join(next(requests, "")[: PREVIEW * 4].split())[:PREVIEW]


def model_provider(model: str) -> str:
    """The provider in the name of a model."""
    return model.partition("/")[0]


def rights_fields(rights: Rights) -> dict[str, Any]:
    """What a thread may do, as answers that open one have it."""
    return {
        "approvalPolicy": _approval(rights.approval_policy),
        "approvalsReviewer": "user",
        "sandbox": _sandbox(rights),
    }


def _approval(policy: ApprovalPolicy) -> str:
    """The nearest name that Codex still has."""
    if not policy.may_ask:
        return "never"
    return "untrusted" if policy.auto_run == "trusted" else "on-request"


def _sandbox(rights: Rights) -> dict[str, Any]:
    match rights.sandbox:
        case "read_only":
            return {"type": "readOnly", "networkAccess": rights.network}
        case "workspace_write":
            roots = list(rights.writable_roots or ())
            return {"type": "workspaceWrite", "writableRoots": roots, "networkAccess": rights.network}
        case "danger_full_access":
            return {"type": "dangerFullAccess"}


def _message_items(item: Item) -> list[CodexItem]:
    match item:
        case UserMessage():
            return [] if item.injected else [i.user_message(item)]
        case AssistantMessage():
            return [i.agent_message(item.id, item.text)]
        case Reasoning():
            return [i.reasoning(item.id, item.text)] if item.text else []
        case Summary():
            return [i.compaction(item.id)]
        case _:
            return []


def _shows(item: Item) -> bool:
    return isinstance(item, ToolCall) or bool(_message_items(item))


def _end(item: ToolOutput) -> ToolCallEnd:
    return ToolCallEnd(item.call_id, "", item.success, item.text, truncated=False, duration_ms=0)
