"""Puts one model request together: instructions, history, tools, cache key; and the fingerprint that is recorded of it.

The cost depends on what is new only: the history was encoded when its items were added. Sends nothing. A conversation's
own instructions are used exactly as they are. Without any, our built-in ones are, in parts that fit its tools. A
compact turn brings its own text for that one request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.history.sanitiser import closing_outputs
from tertulia.history.store import HistoryStore
from tertulia.history.view import HistoryView
from tertulia.models.wire import Dialect, ModelRequest, ModelSettings, Wire
from tertulia.prompt.tool_list import OfferedTools
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Item
from tertulia.protocol.records import ModelRequestRecord
from tertulia.protocol.storage import Full, StoragePolicy, Ttl
from tertulia.protocol.tool_spec import BASH, TEXT_EDITOR

_FAMILIES_KNOWING_PATCHES = frozenset({"gpt-5-codex"})
"""Families trained on the patch format; every other one is told about it when it lacks the tool."""

TextName = Literal["prompt", "code", "patch", "editor", "provider", "apply_patch", "compact"]

_ON_CODE = frozenset(
    {"shell", BASH, "local_shell", "exec_command", "apply_patch", "view", "edit", "write", TEXT_EDITOR}
)
"""The tools of a conversation that can work on code."""
_PROFILES: tuple[tuple[str, TextName], ...] = (
    (TEXT_EDITOR, "provider"),
    ("edit", "editor"),
    ("apply_patch", "patch"),
)
"""The tool by which a profile is recognised, and the text for it."""


@cache
def builtin_text(name: TextName) -> str:
    """One of the texts shipped with the package."""
    return Path(__file__).with_name(f"{name}.md").read_text("utf-8")


def instruction_parts(tools: Collection[str], family: str) -> list[tuple[TextName, str]]:
    """The built-in texts that a conversation with these tools is given, in order, and why each is among them."""
    parts: list[tuple[TextName, str]] = [("prompt", "")]
    if not _ON_CODE.isdisjoint(tools):
        parts.append(("code", "tools for code"))
    profiles: list[tuple[TextName, str]] = [(text, f"tool {tool}") for tool, text in _PROFILES if tool in tools]
    if profiles:
        parts.append(profiles[0])
    elif "view" not in tools and family not in _FAMILIES_KNOWING_PATCHES:
        parts.append(("apply_patch", "no tool for patches"))
    return parts


def full_instructions(override: str | None, tools: frozenset[str], family: str) -> str:
    """The instructions of a request. An override is never touched, not even an empty one.

    `tools`: the names of those that are offered.
    """
    return override if override is not None else _builtin_for(tools, family)


@lru_cache(maxsize=256)
def _builtin_for(tools: frozenset[str], family: str) -> str:
    return _builtin(tuple(name for name, _ in instruction_parts(tools, family)))


@cache
def _builtin(names: tuple[TextName, ...]) -> str:
    text = "".join(map(builtin_text, names))
    # By identity: these texts live as long as the process. To remember others too would keep the instructions of closed
    # conversations, up to 16 MB each.
    _builtin_digests[id(text)] = hashlib.sha256(text.encode()).hexdigest()
    return text


_builtin_digests: dict[int, str] = {}


def _text_digest(text: str) -> str:
    return _builtin_digests.get(id(text)) or hashlib.sha256(text.encode()).hexdigest()


def cache_key(instructions: str, tools_digest: str, family: str) -> str:
    """Stable over runs and machines: instructions, tool names and schemas, model family. Nothing else."""
    parts = (_text_digest(instructions), tools_digest, family)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def fingerprint_request(
    asker: tuple[ConversationId, TaskId],
    instructions: str,
    tools_json: bytes,
    history: HistoryView,
    *,
    tools_digest: str | None = None,
    override: str | None = None,
    output_schema: str | None = None,
    storage: StoragePolicy | None = None,
    model: str | None = None,
    summarises: tuple[tuple[int, int], ...] = (),
) -> ModelRequestRecord:
    """The record of one request. `override` is given where the instructions were those of this task only.

    `tools_digest`: of `tools_json`, where it is known. `model`: where it is not the conversation's own.
    """
    parts = (
        _text_digest(instructions),
        tools_digest or hashlib.sha256(tools_json).hexdigest(),
        history.totals.digest.hex(),
        "" if output_schema is None else hashlib.sha256(output_schema.encode()).hexdigest(),
    )
    conversation_id, task_id = asker
    return ModelRequestRecord(
        conversation_id=conversation_id,
        task_id=task_id,
        instructions=parts[0],
        tools=parts[1],
        history=parts[2],
        items=len(history),
        prompt=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        tools_json=tools_json,
        override=override,
        output_schema=output_schema,
        storage=storage,
        model=model,
        summarises=summarises,
    )


_STILL_OPEN = "no result yet: the call is still open"


class PromptView:
    """What the model reads, oldest first. Does not change when the history goes on."""

    __slots__ = ("chunks", "extra", "history")

    def __init__(self, history: HistoryView, chunks: tuple[bytes, ...], extra: tuple[Item, ...]) -> None:
        self.history = history
        self.chunks = chunks
        """The same in the dialect of the wire: comma-joined JSON values, no chunk empty."""
        self.extra = extra

    def __iter__(self) -> Iterator[Item]:
        return chain(self.history, self.extra)

    def __len__(self) -> int:
        return len(self.history) + len(self.extra)


def build_prompt_view(store: HistoryStore, dialect: Dialect, extra_pending: Sequence[Item] = ()) -> PromptView:
    """The one function that joins a history with a turn's own items.

    Every call in it has an output: pairing was proved segment by segment, and a call that is still open (a
    compaction while the conversation waits) is answered here, for this request only.
    """
    history = store.snapshot()
    extra = (*closing_outputs(store.open_call_items(), _STILL_OPEN), *extra_pending)
    chunks = store.encoded(dialect)
    if extra:
        tail = dialect.encode_items(extra)
        chunks = (*chunks, tail) if tail else chunks
    return PromptView(history, chunks, extra)


class RequestInputs(msgspec.Struct, frozen=True):
    """What a request is made for."""

    conversation_id: ConversationId
    wire: Wire
    override: str | None
    """The conversation's base instructions, or a compact turn's own; None for the built-in text."""
    tools: OfferedTools
    storage: StoragePolicy
    output_schema: str | None = None
    output_name: str = "answer"
    settings: ModelSettings = ModelSettings()


def build_request(asking: RequestInputs, store: HistoryStore, extra_pending: Sequence[Item] = ()) -> ModelRequest:
    """The request for the history as it is now."""
    wire, tools = asking.wire, asking.tools
    instructions = full_instructions(asking.override, tools.names, wire.family)
    view = build_prompt_view(store, wire.dialect, extra_pending)
    return ModelRequest(
        conversation_id=asking.conversation_id,
        model=wire.name,
        instructions=instructions,
        items=view,
        chunks=view.chunks,
        tools=tools.specs,
        tools_json=tools.encoded(wire.dialect),
        cache_key=cache_key(instructions, tools.digest, wire.family),
        store=isinstance(asking.storage, Full | Ttl) and store.may_be_kept_elsewhere,
        output_schema=asking.output_schema,
        output_name=asking.output_name,
        settings=asking.settings,
    )
