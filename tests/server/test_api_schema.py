"""The schema of what goes over a wire, held against what really does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from tertulia.server.api_schema import answer_types, event_types, params_schema, result_schema, schema_document
from tertulia.session.host import Host
from tertulia.session.operations import OPERATIONS, call
from tertulia.session.settings.settings import Settings
from tests.server.client import model
from tests.tables import each_row

DOCUMENT = schema_document()


def fits(value: Any, reference: Any) -> None:
    """Against a schema of the document, with all its definitions. Those were checked already."""
    jsonschema.Draft202012Validator({**reference, "$defs": DOCUMENT["$defs"]}).validate(value)


def test_every_operation_and_event_is_in_it_and_every_reference_leads_somewhere() -> None:
    """Issue 10, 1."""
    assert set(DOCUMENT["operations"]) == {*OPERATIONS, "initialize", "events/subscribe", "host/subscribe"}
    assert set(DOCUMENT["events"]) == set(event_types())
    text = json.dumps(DOCUMENT)
    for name in {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}:
        assert name in DOCUMENT["$defs"]
    for schema in DOCUMENT["$defs"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_no_two_types_share_a_name() -> None:
    """They would be told apart by where they live in our source, which is nobody's business."""
    assert not [name for name in DOCUMENT["$defs"] if not name.isidentifier()]


@each_row("name", OPERATIONS)
def test_parameters_and_results_stand_on_their_own_feet(name: str) -> None:
    """For surfaces that have a schema for each tool."""
    for schema in (params_schema(name), result_schema(name)):
        assert schema["type"] == "object"
        jsonschema.Draft202012Validator.check_schema(schema)


def test_what_is_not_a_parameter_is_refused_by_the_schema_too() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"conversation_id": "root", "texts": "x"}, params_schema("conversation/message"))


async def test_what_is_answered_and_told_fits_the_schema() -> None:
    """Every operation that a scripted session can run, and every event of it."""
    host = Host(Settings(model=model(["hello"])))
    session = await host.start()
    news = session.events(after=0)
    opened = (await call(host, session, "conversation/open", {"title": "t"})).answer
    fields: dict[str, dict[str, Any]] = {
        "conversation/message": {"conversation_id": opened.conversation_id, "text": "hi"},
        "conversation/set_context": {"conversation_id": opened.conversation_id, "title": "u"},
        **{f"conversation/{name}": {"conversation_id": opened.conversation_id} for name in ("context", "history")},
        **{
            f"conversation/{name}": {"conversation_id": opened.conversation_id}
            for name in ("tools", "interrupt", "fork")
        },
        "conversation/compact": {"conversation_id": opened.conversation_id},
        "conversation/close": {"conversation_id": opened.conversation_id},
        **{name: {} for name in ("session/start", "session/list", "session/info", "conversation/list", "task/list")},
        **{name: {} for name in ("approval/list", "approval/grants", "mcp/status", "mcp/refresh", "metrics/get")},
    }
    for name, params in fields.items():
        answer = msgspec.json.decode(msgspec.json.encode((await call(host, session, name, params)).answer))
        fits(answer, DOCUMENT["operations"][name]["result"])
    detached = await call(
        host, session, "conversation/message", {"conversation_id": "root", "text": "x", "detach": True}
    )
    fits(msgspec.to_builtins(detached.answer), DOCUMENT["operations"]["conversation/message"]["result"])
    await host.close()
    kinds: set[str] = set()
    async for event in news:
        payload = json.loads(event.json())
        fits(payload["data"], DOCUMENT["events"][payload["type"]]["data"])
        kinds.add(payload["type"])
    assert {"task_started", "agent_message", "task_complete", "conversation_opened"} <= kinds


def test_the_usual_answer_comes_first() -> None:
    assert [kind.__name__ for kind in answer_types(OPERATIONS["conversation/message"])] == [
        "MessageAnswer",
        "DetachAnswer",
    ]
