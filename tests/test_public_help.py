"""`help()`, `inspect.signature` and `typing.get_type_hints` work on every public name and its public members."""

from __future__ import annotations

import ast
import inspect
import pydoc
import textwrap
import typing
from collections.abc import Iterator
from typing import Any

import tertulia
import tertulia.testing
from tertulia.policy.limits import Limits
from tertulia.protocol.inputs import AgentSpec, ContextFields
from tertulia.session.approvals.approvals import Approvals
from tests.tables import each_row

HANDLES = {"Session.approvals": Approvals}
"""Not exported: a session has it."""


def _of_class(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    for member in dir(kind):
        value = inspect.getattr_static(kind, member)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        if not member.startswith("_") and inspect.isfunction(value) and value.__module__.startswith("tertulia"):
            yield f"{name}.{member}", value


def _public() -> Iterator[tuple[str, Any]]:
    for module in (tertulia, tertulia.testing, tertulia.errors):
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if name.startswith("_") or getattr(value, "__module__", "tertulia").partition(".")[0] != "tertulia":
                continue
            yield name, value
            if inspect.isclass(value):
                yield from _of_class(name, value)
    for name, handle in HANDLES.items():
        yield name, handle
        yield from _of_class(name, handle)


PUBLIC = dict(_public())
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CALLABLE = {
    name: value
    for name, value in PUBLIC.items()
    if inspect.isfunction(value) or (inspect.isclass(value) and not typing.is_typeddict(value))
}


@each_row("name", PUBLIC)
def test_help_has_something_to_say(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(PUBLIC[name]))
    assert len(text.splitlines()) > 2


@each_row("name", CALLABLE)
def test_its_signature_and_types_can_be_read(name: str) -> None:
    value = CALLABLE[name]
    assert inspect.signature(value)
    hints = typing.get_type_hints(value, include_extras=True)
    assert isinstance(hints, dict)


@each_row("name", FUNCTIONS)
def test_a_function_is_typed_in_full_and_says_what_it_does(name: str) -> None:
    function = PUBLIC[name]
    hints = typing.get_type_hints(function)
    parameters = [parameter for parameter in inspect.signature(function).parameters if parameter not in ("self", "cls")]
    assert not [parameter for parameter in parameters if parameter not in hints], "a parameter without a type"
    assert "return" in hints
    assert function.__doc__


def _is_property(name: str) -> bool:
    owner, _, member = name.rpartition(".")
    return bool(owner) and isinstance(inspect.getattr_static(PUBLIC[owner], member), property)


def _parameters(function: Any) -> list[str]:
    return [parameter for parameter in inspect.signature(function).parameters if parameter not in ("self", "cls")]


def _lines(function: Any) -> list[str]:
    return [line.strip() for line in (inspect.getdoc(function) or "").splitlines()]


@each_row("name", FUNCTIONS)
def test_a_function_says_what_it_takes_and_returns(name: str) -> None:
    """Google style: each parameter by name under Args, and what comes back, but for properties, which are no calls."""
    if _is_property(name):
        return
    function = FUNCTIONS[name]
    lines, parameters = _lines(function), _parameters(function)
    assert not [parameter for parameter in parameters if not any(line.startswith(f"{parameter}: ") for line in lines)]
    assert ("Args:" in lines) == bool(parameters)
    assert ("Returns:" in lines) == (typing.get_type_hints(function)["return"] is not type(None))


@each_row("name", FUNCTIONS)
def test_a_function_says_what_it_raises(name: str) -> None:
    """What stands in its own body; what those that it calls raise is said where a caller meets it."""
    function = FUNCTIONS[name]
    body = ast.parse(textwrap.dedent(inspect.getsource(function)))
    made = [node.exc.func for node in ast.walk(body) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    raised = {made_by.id for made_by in made if isinstance(made_by, ast.Name)}
    section = "\n".join(_lines(function)).partition("Raises:")[2]
    assert not [error for error in sorted(raised) if f"{error}: " not in section]


PLAIN_CALLS = {
    *("Session.conversations", "Conversation.tools"),
    *("SessionContextInjector.list_providers", "RecordedEvents.drain", "FakeClock.monotonic", "FakeClock.now"),
    *("Event.json", "Failure.to_error", "Reply.raise_for_status", "TypedReply.raise_for_status"),
    *("MappedReply.raise_for_status", "ScriptedModel.tour"),
}
"""DESIGN and REQUIREMENTS name the first three; the others do something: read a clock, encode, make, raise."""


@each_row("name", FUNCTIONS)
def test_what_is_at_hand_is_a_property_and_what_must_be_fetched_is_awaited(name: str) -> None:
    """No third kind of getter: a plain call that only tells something."""
    function = FUNCTIONS[name]
    if _is_property(name) or _parameters(function) or function.__name__ == "keys" or name in PLAIN_CALLS:
        return
    assert inspect.iscoroutinefunction(function) or typing.get_type_hints(function)["return"] is type(None)


def test_the_fields_of_a_conversation_are_those_of_the_operations() -> None:
    """`ConversationFields` is what type checkers see; `ContextFields` is what is parsed."""
    assert set(typing.get_type_hints(tertulia.ConversationFields)) == {*ContextFields.__struct_fields__, "tools"}
    assert tuple(typing.get_type_hints(tertulia.LimitFields)) == Limits.__struct_fields__
    assert tuple(typing.get_type_hints(tertulia.AgentFields)) == AgentSpec.__struct_fields__
