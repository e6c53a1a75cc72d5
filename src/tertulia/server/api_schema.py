"""JSON Schema of what goes over a wire: inputs, answers and events, made from the very types that are used there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from tertulia.protocol import inputs
from tertulia.protocol.events import EVENT_TYPES, Event, EventData
from tertulia.protocol.mapping_struct import BaseEventData
from tertulia.protocol.subscriptions import Subscribe
from tertulia.session import answers
from tertulia.session.board.answers import BoardAnswer
from tertulia.session.describe import PROTOCOL_VERSION
from tertulia.session.host_feed.cards import HostAnswer, HostEvent
from tertulia.session.operations import OPERATIONS, Operation
from tertulia.session.records.answers import RecordBoard

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_CONNECTION: dict[str, tuple[type[msgspec.Struct], tuple[type[msgspec.Struct], ...]]] = {
    "initialize": (inputs.Initialize, (answers.InitializeAnswer, answers.ObserveAnswer)),
    "events/subscribe": (Subscribe, (answers.SubscribeAnswer,)),
    "host/subscribe": (inputs.NoParams, (HostAnswer,)),
}
"""What a connection adds to the operation set."""
_NOTIFICATIONS: dict[str, type[msgspec.Struct]] = {"host_event": HostEvent}
"""What a server sends besides responses and events."""

_SESSION_ID = {
    "anyOf": [{"type": "string"}, {"type": "null"}],
    "default": None,
    "description": "the session that is meant, where it is not the connection's own",
}
"""Parameters that every operation takes; they are read before its own."""


_ANY_DATA = msgspec.defstruct("EventData", [], namespace={"__doc__": BaseEventData.__doc__})
_ENVELOPE = msgspec.defstruct(
    "Event",
    [(field.name, _ANY_DATA if field.name == "data" else field.type) for field in msgspec.structs.fields(Event)],
    namespace={"__doc__": Event.__doc__},
)
"""The envelope for a schema: its `data` is listed by event type, because JSON tells the types apart by the envelope."""


def schema_document() -> dict[str, Any]:
    """Everything: `operations` with `params` and `result`, `events` with their `data`, and `$defs` for all of them.

    The root is a type too, with all operations and the union of all events: programs that make types of a schema begin
    there, and find nothing in members that are no keywords.
    """
    page = _CONNECTION | {name: (operation.kind, answer_types(operation)) for name, operation in OPERATIONS.items()}
    kinds = [struct for kind, results in page.values() for struct in (kind, *results)]
    every = list(dict.fromkeys([_ENVELOPE, *kinds, *event_types().values(), *_NOTIFICATIONS.values()]))
    references, definitions = _components(every)
    reference = dict(zip(every, references, strict=True))
    for kind, _ in page.values():
        definitions[kind.__name__]["properties"].setdefault("session_id", _SESSION_ID)
    operations: dict[str, Any] = {}
    for name, (kind, results) in page.items():
        options = [reference[struct] for struct in results]
        result = options[0] if len(options) == 1 else {"anyOf": options}
        operations[name] = {"params": reference[kind], "result": result}
    definitions["Operations"] = _operations_type(operations)
    definitions |= _event_union(definitions["Event"], {name: reference[kind] for name, kind in event_types().items()})
    return {
        "$schema": DIALECT,
        "title": "Tertulia",
        "description": "Every operation and every event of the protocol.",
        "type": "object",
        "properties": {"operations": {"$ref": "#/$defs/Operations"}, "event": {"$ref": "#/$defs/AnyEvent"}},
        "required": ["operations", "event"],
        "additionalProperties": False,
        "protocol_version": PROTOCOL_VERSION,
        "operations": operations,
        "event": reference[_ENVELOPE],
        "notifications": {name: {"params": reference[kind]} for name, kind in _NOTIFICATIONS.items()},
        "events": {name: {"data": reference[kind]} for name, kind in event_types().items()},
        "$defs": dict(sorted(definitions.items())),
    }


def _components(kinds: Sequence[type[msgspec.Struct]]) -> tuple[Sequence[dict[str, Any]], dict[str, Any]]:
    """A reference for each of these types, and all definitions. A board has its own types: see `BoardAnswer`."""
    boards: list[type[msgspec.Struct]] = []
    answers_with_board = [kind for kind in (BoardAnswer, RecordBoard) if kind in kinds]
    if answers_with_board:
        # Imported here: sessions do not load it for the sake of its schema.
        from tertulia.view.board_state import BoardState

        boards = [BoardState]
    references, definitions = msgspec.json.schema_components([*kinds, *boards], ref_template="#/$defs/{name}")
    for kind in answers_with_board:
        definitions[kind.__name__]["properties"]["board"] = references[-1]
    return references[: len(kinds)], definitions


def _operations_type(operations: dict[str, Any]) -> dict[str, Any]:
    """One type that has each operation by its name, with its parameters and its result."""
    members = {
        name: {
            "type": "object",
            "properties": operation,
            "required": ["params", "result"],
            "additionalProperties": False,
        }
        for name, operation in operations.items()
    }
    return {
        "title": "Operations",
        "description": "Each operation by its name: what it takes and what it answers.",
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _event_union(envelope: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The envelope once for each type of event, with its data, and the union of them: `type` tells them apart."""
    definitions: dict[str, Any] = {}
    mapping: dict[str, str] = {}
    for name, reference in data.items():
        title = f"{reference['$ref'].rpartition('/')[2]}Envelope"
        properties = {**envelope["properties"], "type": {"const": name, "type": "string"}, "data": reference}
        described = {"title": title, "description": f"The event `{name}`.", "properties": properties}
        definitions[title] = {**envelope, **described}
        mapping[name] = f"#/$defs/{title}"
    definitions["AnyEvent"] = {
        "title": "AnyEvent",
        "description": "Every event; `type` says which one it is.",
        "oneOf": [{"$ref": place} for place in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }
    return definitions


def params_schema(name: str) -> dict[str, Any]:
    """The schema of an operation's parameters, with every definition that it refers to."""
    return schema_of(OPERATIONS[name].kind)


def result_schema(name: str) -> dict[str, Any]:
    """The schema of what an operation answers, when it is waited for."""
    return schema_of(answer_types(OPERATIONS[name])[0])


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """With the type itself at the top: many readers want to see an object there, not a reference to one."""
    _, definitions = _components([kind])
    schema: dict[str, Any] = definitions.pop(kind.__name__)
    return {**schema, "$defs": definitions} if definitions else schema


def answer_types(operation: Operation) -> tuple[type[msgspec.Struct], ...]:
    """One, or those of a union, the usual one first."""
    return get_args(operation.answers) or (operation.answers,)


def event_types() -> dict[str, type[EventData]]:
    """Every type of event by its name."""
    return dict(sorted(EVENT_TYPES.items()))
