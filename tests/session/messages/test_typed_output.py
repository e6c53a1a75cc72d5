"""Issue 19, item 12: an answer has the form that was asked for, is repaired once, or fails the task with the errors."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

import tertulia
from tertulia.errors import InvalidOutputError, InvalidParamsError, TaskTimeoutError
from tertulia.testing import RecordedEvents, ScriptedModel, call, fail, say
from tests.deadlines import HANG_S
from tests.tables import each_row

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
}


@dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    corner: Point
    colour: Annotated[Literal["red", "blue"], msgspec.Meta(description="As painted.")]
    others: list[Point] = []


class Entry(TypedDict):
    name: str
    size: int


class Inner(pydantic.BaseModel):
    n: int


class Model(pydantic.BaseModel):
    inner: Inner
    children: list[Model] = []

    @pydantic.field_validator("children")
    @classmethod
    def few(cls, children: list[Model]) -> list[Model]:
        if len(children) > 1:
            raise ValueError("one child at most")
        return children


@dataclass
class Mixed:
    model: Model
    models: dict[str, Inner] = field(default_factory=dict[str, Inner])


def session(*script: Any, **settings: Any) -> tertulia.Session:
    return tertulia.Session.start(tertulia.Settings(model=ScriptedModel(list(script)), **settings))


TYPES: dict[str, tuple[type[Any], str, Any]] = {
    "dataclass": (Point, '{"x": 1}', Point(1, 0)),
    "struct": (
        Box,
        '{"corner": {"x": 1, "y": 2}, "colour": "red", "others": [{"x": 3}]}',
        Box(Point(1, 2), "red", [Point(3)]),
    ),
    "typed dict": (Entry, '{"name": "a", "size": 2}', {"name": "a", "size": 2}),
    "pydantic": (
        Model,
        '{"inner": {"n": 1}, "children": [{"inner": {"n": 2}}]}',
        Model(inner=Inner(n=1), children=[Model(inner=Inner(n=2))]),
    ),
    "pydantic inside": (
        Mixed,
        '{"model": {"inner": {"n": 1}}, "models": {"a": {"n": 3}}}',
        Mixed(Model(inner=Inner(n=1)), {"a": Inner(n=3)}),
    ),
}


@each_row("name", TYPES)
async def test_an_answer_becomes_an_object_of_the_type(name: str) -> None:
    output_type, text, value = TYPES[name]
    async with session(text) as on:
        reply = await on.root.message("go", output_type=output_type)
        assert (reply.output, type(reply.output)) == (value, type(value))
        assert reply.output is reply.output
        assert reply.raise_for_status() is reply


async def test_the_model_is_asked_for_all_fields_and_no_others() -> None:
    model = ScriptedModel(['{"corner": {"x": 1}, "colour": "red"}'])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as on:
        await on.root.message("go", output_type=Box)
    schema = msgspec.json.decode(model.last_request.request.output_schema or "")
    point = schema["$defs"]["Point"]
    assert (schema["required"], schema["additionalProperties"]) == (["corner", "colour", "others"], False)
    assert (point["required"], point["additionalProperties"]) == (["x", "y"], False)
    assert schema["properties"]["colour"] == {"enum": ["blue", "red"], "description": "As painted."}


@each_row(
    ("first", "problem"),
    [
        ("no JSON at all", "the answer is not JSON: "),
        ('```json\n{"x": 1, "y": 2}\n```', "the answer is not JSON: "),
        ('{"x": "1"}', "- $.x: expected integer, got string"),
        ("", "there was no answer"),
    ],
)
async def test_an_answer_that_does_not_fit_is_repaired_by_the_model_which_reads_the_errors(
    first: str, problem: str
) -> None:
    model = ScriptedModel([first, '{"x": 1, "y": 2}'])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as on:
        reply = await on.root.message("go", output_schema=SCHEMA)
        item = list(model.last_request.request.items)[-1]
        assert (reply.status, reply.text) == ("completed", '{"x": 1, "y": 2}')
        assert isinstance(item, tertulia.UserMessage)
        assert item.text.startswith("<output_errors>")
        assert problem in item.text
        texts = [entry.text for entry in await on.root.history() if entry.role == "user"]
        assert texts == ["go"], "what we say to the model is no message of the user"


async def test_after_one_repair_the_task_fails_with_every_error() -> None:
    async with session("{}", '{"x": "a", "y": []}') as on, RecordedEvents(on) as events:
        reply = await on.root.message("go", output_schema=SCHEMA)
        wrong = ("$.x: expected integer, got string", "$.y: expected integer, got array")
        assert reply.error is not None
        assert (reply.status, reply.error.code, reply.error.errors) == ("failed", "invalid_output", wrong)
        assert all(problem in reply.error.message for problem in wrong)
        with pytest.raises(InvalidOutputError) as raised:
            reply.raise_for_status()
        assert raised.value.errors == wrong
        await events.until("task_complete")
        assert [event.data.status for event in events.seen if isinstance(event.data, tertulia.TaskComplete)] == [
            "failed"
        ]


async def test_what_a_pydantic_validator_refuses_is_repaired_too() -> None:
    many = '{"inner": {"n": 1}, "children": [{"inner": {"n": 2}}, {"inner": {"n": 3}}]}'
    model = ScriptedModel([many, '{"inner": {"n": 1}}'])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as on:
        reply = await on.root.message("go", output_type=Model)
        assert reply.output == Model(inner=Inner(n=1))
        item = list(model.last_request.request.items)[-1]
        assert "children: one child at most" in item.text


async def test_a_repair_counts_once_in_a_task_and_its_continuations() -> None:
    ask = call("conv_create", {"user_instruction": "x"})
    async with session("{}", say("", ask), "child", "[]", "never asked for") as on:
        reply = await on.root.message("go", output_schema=SCHEMA)
    assert reply.error is not None
    assert reply.error.errors == ("$: expected object, got array",)


async def test_a_tool_that_ends_the_task_ends_it_and_no_repair_follows() -> None:
    @tertulia.tool
    def stop() -> tertulia.Result:
        """Ends it."""
        return tertulia.Result("over", ends_task=True)

    model = ScriptedModel([say("not JSON", call("stop")), "never asked for"])
    async with tertulia.Session.start(tertulia.Settings(model=model, tools=[stop])) as on:
        reply = await on.root.message("go", output_schema=SCHEMA)
    assert reply.error is not None
    assert (reply.error.code, len(model.requests)) == ("invalid_output", 1)


async def test_a_stream_gives_the_typed_reply_after_its_events() -> None:
    async with session('{"x": 4}', '{"x": 5}') as on:
        stream = on.root.stream("go", output_type=Point)
        seen = [event.type async for event in stream]
        assert (seen[-1], (await stream.reply()).output) == ("task_complete", Point(4))
        assert (await on.root.stream("go", output_type=Point).reply()).output == Point(5)


async def test_a_stream_that_is_left_stops_the_task_and_says_so_in_its_reply() -> None:
    async with session(say("never whole", gate=asyncio.Event())) as on, RecordedEvents(on) as events:
        stream = on.root.stream("go")
        async for event in stream:
            if event.type == "task_started":
                break
        await stream.aclose()
        assert (await stream.reply()).status == "interrupted"
        unread = on.root.stream("go")
        await unread.aclose()
        with pytest.raises(tertulia.errors.ClosedError):
            await unread.reply()
        await events.until("turn_aborted")


async def test_a_stream_that_nothing_holds_any_more_stops_its_task() -> None:
    async with session(say("never whole", gate=asyncio.Event())) as on, RecordedEvents(on) as events:
        gc.disable()
        try:
            async for event in on.root.stream("go"):
                if event.type == "task_started":
                    break
            await events.until("turn_aborted")
        finally:
            gc.enable()


@each_row(
    "output_type",
    [int, list[int], dict[str, int], object, Literal["a"], tertulia.Session],
)
async def test_what_is_no_object_is_refused_before_anything_is_sent(output_type: Any) -> None:
    async with session() as on:
        with pytest.raises(InvalidParamsError, match="output_type"):
            await on.root.message("go", output_type=output_type)


@each_row(
    ("fields", "words"),
    [
        ({"output_schema": {"type": "wish"}}, "output_schema: the schema cannot be used"),
        ({"output_schema": {"$ref": "https://elsewhere.example"}}, "is not inside it"),
        ({"output_schema": SCHEMA, "output_type": Point}, "output_schema or output_type, not both"),
        ({"output_type": complex}, "complex has no JSON form; its fields may be what JSON has .str, int"),
        ({"output_type": int | Path}, "a part of it has no JSON form, or two parts have the same; its fields may be"),
        ({"output_type": 5}, "a part of it has no JSON form"),
    ],
)
async def test_a_form_that_cannot_be_checked_is_refused(fields: Any, words: str) -> None:
    async with session() as on:
        with pytest.raises(InvalidParamsError, match=words):
            await on.root.message("go", **fields)


async def test_the_same_message_again_gives_the_same_answer_and_says_so_where_it_is_another_type() -> None:
    async with session('{"x": 1}') as on:
        first = await on.root.message("go", output_type=Point, message_id="m")
        again = await on.root.message("go", output_type=Point, message_id="m")
        assert (again, again.output) == (first, Point(1))
        other = await on.root.message("go", output_type=Entry, message_id="m")
        with pytest.raises(InvalidOutputError, match="no Entry"):
            _ = other.output


@each_row(
    ("script", "limits", "kind"),
    [
        (fail("no credit"), {}, tertulia.errors.ModelError),
        (say("late", gate=asyncio.Event()), {"task_timeout_s": 0.01}, TaskTimeoutError),
    ],
)
async def test_a_failed_reply_raises_the_error_of_its_code(script: Any, limits: Any, kind: type[Exception]) -> None:
    async with session(script, limits=limits) as on:
        reply = await on.root.message("go", output_type=Point)
        with pytest.raises(kind):
            reply.raise_for_status()
        with pytest.raises(kind):
            _ = reply.output


async def test_a_tool_takes_models_dataclasses_structs_and_typed_dicts() -> None:
    heard: list[Any] = []

    @tertulia.tool
    def note(model: Model, point: Point, box: Box, entry: Entry, more: list[Inner]) -> str:
        """Take them."""
        heard.extend([model, point, box, entry, more])
        return "ok"

    fields = {
        "model": {"inner": {"n": 1}},
        "point": {"x": 1},
        "box": {"corner": {"x": 1}, "colour": "red"},
        "entry": {"name": "a", "size": 1},
        "more": [{"n": 2}],
    }
    wrong = {**fields, "model": {"inner": {"n": 1}, "children": [{"inner": {"n": 2}}] * 2}}
    script = [say("", call("note", fields), call("note", wrong), call("note", {**fields, "more": [{}]})), "done"]
    async with session(*script, tools=[note]) as on, RecordedEvents(on) as events:
        await on.root.message("go")
    assert heard == [
        Model(inner=Inner(n=1)),
        Point(1),
        Box(Point(1), "red"),
        {"name": "a", "size": 1},
        [Inner(n=2)],
    ]
    ends = [event.data for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    assert [end.success for end in ends] == [True, False, False]
    assert "one child at most" in ends[1].output
    assert "$.more[0]: expected a property" in ends[2].output


def test_pydantic_is_not_imported_where_no_model_of_it_is_used() -> None:
    program = """
import asyncio, sys
from dataclasses import dataclass
import tertulia
from tertulia.testing import ScriptedModel
@dataclass
class P:
    x: int
@tertulia.tool
def f(p: P) -> int:
    "d"
    return p.x
print(tertulia.run("go", tertulia.Settings(model=ScriptedModel(['{"x": 7}']), tools=[f]), output_type=P).output.x)
assert "pydantic" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (ran.stdout, ran.stderr) == ("7\n", "")


# ---- the one-line helper


def test_run_asks_once_and_returns_the_reply() -> None:
    settings = tertulia.Settings(model=ScriptedModel(["hello", '{"x": 2}']))
    assert tertulia.run("hi", settings).text == "hello"
    assert tertulia.run("hi", settings=settings, output_type=Point).output == Point(2)


async def test_run_refuses_to_block_an_event_loop() -> None:
    with pytest.raises(tertulia.errors.InvalidRequestError, match=r"await session\.root\.message"):
        tertulia.run("hi", tertulia.Settings(model=ScriptedModel(["x"])))


def test_run_lets_a_function_answer_what_is_asked() -> None:
    kinds: list[str] = []

    def answer(request: tertulia.ApprovalRequest) -> tertulia.ApprovalDecision:
        kinds.append(request.kind)
        return "deny"

    model = ScriptedModel([say("", call("shell", {"command": ["touch", "x"]})), "done"])
    settings = tertulia.Settings(model=model, approval_policy="untrusted", sandbox="read-only")
    assert tertulia.run("go", settings, on_approval=answer).text == "done"
    assert kinds == ["exec"]
