"""Typed functions as tools."""

from __future__ import annotations

import dataclasses
import enum
import functools
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.schema.schema import Schema
from tertulia.tools.function import FunctionTool, tool
from tertulia.tools.tool import CallContext, Handoff, Outcome, Result
from tests.tables import each_row
from tests.tools.calling import context


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(msgspec.Struct):
    name: str
    near: list[Place] = []


@dataclasses.dataclass
class Box:
    side: Annotated[int, msgspec.Meta(ge=1)]


@tool
def weather(
    city: str,
    days: int = 1,
    unit: Unit = Unit.C,
    *,
    tags: list[str] = [],  # noqa: B006
    place: Place | None = None,
) -> str:
    """Look up the weather.

    Args:
        city: Its name.
        days: How many.
        place: Where it lies.
    """
    return f"{city} {days} {unit.value} {tags} {place.name if place else '-'}"


async def result_of(function: FunctionTool[..., Any], arguments: dict[str, Any]) -> Outcome:
    call = context()
    function.check(arguments, call)
    return await function.run(arguments, call)


async def text_of(function: FunctionTool[..., Any], **arguments: Any) -> str:
    outcome = await result_of(function, arguments)
    assert isinstance(outcome, Result)
    assert outcome.success
    return outcome.text


# ---- what the model is told


def test_the_schema_comes_from_the_annotations_and_the_words_from_the_docstring() -> None:
    assert weather.spec.name == "weather"
    assert weather.spec.description == "Look up the weather."
    assert weather.spec.source == "function"
    assert msgspec.json.decode(weather.spec.schema) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "days": {"type": "integer", "description": "How many.", "default": 1},
            "unit": {"$ref": "#/$defs/Unit"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "place": {
                "anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}],
                "description": "Where it lies.",
                "default": None,
            },
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "Unit": {"title": "Unit", "enum": ["celsius", "fahrenheit"]},
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "near": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "default": []},
                },
                "required": ["name"],
            },
        },
    }
    Schema.compile(weather.spec.schema).validate({"city": "Rom", "place": {"name": "x", "near": [{"name": "y"}]}})


def test_everything_can_be_said_otherwise() -> None:
    @tool(name="say-it", description="Say something.", parallel_safe=True, read_only=True)
    def say(what: Annotated[str, msgspec.Meta(description="The annotation's own words.")]) -> str:
        """Not this.

        Args:
            what: Not this either.
        """
        return what

    assert (say.spec.name, say.spec.description) == ("say-it", "Say something.")
    assert say.parallel_safe
    assert say.read_only
    assert msgspec.json.decode(say.spec.schema)["properties"]["what"]["description"] == "The annotation's own words."


def test_a_function_is_careful_unless_it_says_otherwise() -> None:
    assert not weather.parallel_safe
    assert not weather.read_only


def test_a_function_without_words_or_parameters_is_a_tool_too() -> None:
    @tool
    def now() -> None:
        pass

    assert now.spec.description == ""
    assert msgspec.json.decode(now.spec.schema) == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_the_function_is_still_the_function() -> None:
    assert weather("Rom", 2) == "Rom 2 celsius [] -"
    assert weather.__name__ == "weather"
    assert (weather.__doc__ or "").startswith("Look up")


# ---- running


async def test_arguments_are_converted_to_what_the_annotations_say() -> None:
    assert await text_of(weather, city="Rom") == "Rom 1 celsius [] -"
    text = await text_of(weather, city="Rom", days=3, unit="fahrenheit", tags=["a"], place={"name": "Latium"})
    assert text == "Rom 3 fahrenheit ['a'] Latium"


@each_row(
    ("arguments", "place"),
    [
        ({}, "city"),
        ({"city": 3}, "city: expected a text"),
        ({"city": "Rom", "days": "3"}, "days: expected a whole number"),
        ({"city": "Rom", "unit": "kelvin"}, "unit: expected one of"),
        ({"city": "Rom", "place": {}}, "place: "),
        ({"city": "Rom", "colour": "red"}, "colour"),
        ([], "object"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_runs(arguments: Any, place: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        weather.check(arguments, context())
    assert place in caught.value.message


async def test_limits_of_the_annotations_hold() -> None:
    @tool
    def area(box: Box, scale: Literal[1, 2] = 1) -> int:
        return box.side**2 * scale

    assert await text_of(area, box={"side": 3}, scale=2) == "18"
    with pytest.raises(InvalidParamsError, match=r"box\.side: expected a whole number of at least 1"):
        await text_of(area, box={"side": 0})


async def test_a_synchronous_function_runs_in_a_thread_and_an_asynchronous_one_on_the_loop() -> None:
    @tool
    def sync() -> str:
        return threading.current_thread().name

    @tool
    async def on_loop() -> str:
        return threading.current_thread().name

    assert await text_of(sync) != threading.current_thread().name
    assert await text_of(on_loop) == threading.current_thread().name


def logged(function: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
    @functools.wraps(function)
    def wrapper() -> Awaitable[str]:
        return function()

    return wrapper


async def test_a_decorator_that_hides_an_asynchronous_function_does_no_harm() -> None:
    @tool
    @logged
    async def hidden() -> str:
        return threading.current_thread().name

    assert await text_of(hidden) == threading.current_thread().name


async def test_the_context_is_given_to_who_asks_and_not_shown_to_the_model() -> None:
    @tool
    def where(call: CallContext, name: str) -> str:
        return f"{name} in {call.conversation_id}"

    assert list(msgspec.json.decode(where.spec.schema)["properties"]) == ["name"]
    assert await text_of(where, name="me") == "me in conversation"
    with pytest.raises(InvalidParamsError):
        await text_of(where, name="me", call="mine")


class Opaque:
    def __str__(self) -> str:
        return "opaque"


@each_row(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("\ud800", "\ud800"),
        (None, ""),
        (0, "0"),
        (True, "true"),
        ([1, "é"], '[1,"é"]'),
        ({"a": None}, '{"a":null}'),
        (Place("Rom"), '{"name":"Rom","near":[]}'),
        (Box(3), '{"side":3}'),
        (b"bytes \xff", "bytes \ufffd"),
        (Opaque(), "opaque"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (["\ud800"], "['\\ud800']"),
        (10**400, str(10**400)),
    ],
)
async def test_what_is_returned_becomes_text(value: Any, text: str) -> None:
    @tool
    def give() -> Any:
        return value

    @tool
    async def give_later() -> Any:
        return value

    assert await text_of(give) == text
    assert await text_of(give_later) == text


async def test_a_value_that_contains_itself_becomes_text() -> None:
    @tool
    def give() -> list[Any]:
        endless: list[Any] = []
        endless.append(endless)
        return endless

    assert await text_of(give) == "[[...]]"


@each_row("outcome", [Result("no", success=False), Handoff(ConversationId("c"), (), lambda result: Result(""))])
async def test_an_outcome_is_passed_on_as_it_is(outcome: Outcome) -> None:
    @tool
    def give() -> Outcome:
        return outcome

    assert await result_of(give, {}) is outcome


async def test_an_error_of_the_function_passes_through() -> None:
    @tool
    def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError):
        await text_of(fail)


async def test_a_mutable_default_is_the_functions_own() -> None:
    default = ["a"]

    @tool
    def remember(what: list[str] = default) -> bool:
        return what is default

    assert await text_of(remember) == "true"
    assert "default" not in msgspec.json.decode(remember.spec.schema)["properties"]["what"]


async def test_a_bound_method_is_a_tool() -> None:
    class Shop:
        price = 3

        def cost(self, pieces: int) -> int:
            return pieces * self.price

    assert await text_of(tool(Shop().cost), pieces=2) == "6"


# ---- functions that cannot be tools


def varargs(*names: str) -> None: ...
def kwargs(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def bare(name) -> None: ...  # type: ignore[no-untyped-def]
def opaque(name: Opaque) -> None: ...
def number(name: complex) -> None: ...
def structs(name: Place | Box) -> None: ...
def unknown(name: Unknown) -> None: ...  # noqa: F821
def nonsense(name: "3 +") -> None: ...  # noqa: F722
def generator() -> Iterator[int]:
    yield 1


@each_row("function", [varargs, kwargs, positional, bare, opaque, number, structs, unknown, nonsense])
def test_a_parameter_that_a_model_cannot_give_is_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidParamsError, match=rf"^{function.__name__}: parameter names?\b"):
        tool(function)


@each_row("thing", [3, Opaque, functools.partial(weather), weather, print, generator, lambda: None])
def test_what_is_no_plain_function_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidParamsError):
        tool(thing)


def test_a_return_annotation_for_type_checkers_only_does_no_harm() -> None:
    def give() -> Unknown: ...  # noqa: F821

    assert tool(give).spec.name == "give"
