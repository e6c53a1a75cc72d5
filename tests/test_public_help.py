"""`help()`, `inspect.signature` and `typing.get_type_hints` work on every public name and its public members."""

from __future__ import annotations

import inspect
import pydoc
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import tertulia
import tertulia.testing
from tertulia.policy.limits import Limits
from tertulia.protocol.inputs import AgentSpec, ContextFields


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


PUBLIC = dict(_public())
CALLABLE = {
    name: value
    for name, value in PUBLIC.items()
    if inspect.isfunction(value) or (inspect.isclass(value) and not typing.is_typeddict(value))
}

each_public = pytest.mark.parametrize("name", PUBLIC)


@each_public
def test_help_has_something_to_say(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(PUBLIC[name]))
    assert len(text.splitlines()) > 2


@pytest.mark.parametrize("name", CALLABLE)
def test_its_signature_and_types_can_be_read(name: str) -> None:
    value = CALLABLE[name]
    assert inspect.signature(value)
    hints = typing.get_type_hints(value, include_extras=True)
    assert isinstance(hints, dict)


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isfunction(value)])
def test_a_function_is_typed_in_full_and_says_what_it_does(name: str) -> None:
    function = PUBLIC[name]
    hints = typing.get_type_hints(function)
    parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
    assert not [each for each in parameters if each not in hints], "a parameter without a type"
    assert "return" in hints
    assert function.__doc__


WITH_SECTIONS = [
    name
    for name, value in PUBLIC.items()
    if inspect.isfunction(value) and name.partition(".")[0] in ("Session", "Conversation", "Host")
]


@pytest.mark.parametrize("name", WITH_SECTIONS)
def test_a_method_says_what_it_takes_and_returns(name: str) -> None:
    """Google style: each parameter by name under Args, and what comes back, but for properties, which are no calls."""
    function, (kind, _, member) = PUBLIC[name], name.partition(".")
    if isinstance(inspect.getattr_static(getattr(tertulia, kind), member), property):
        return
    lines = [line.strip() for line in (inspect.getdoc(function) or "").splitlines()]
    parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
    assert not [each for each in parameters if not any(line.startswith(f"{each}: ") for line in lines)]
    assert ("Args:" in lines) == bool(parameters)
    assert ("Returns:" in lines) == (typing.get_type_hints(function)["return"] is not type(None))


def test_the_fields_of_a_conversation_are_those_of_the_operations() -> None:
    """`ConversationFields` is what type checkers see; `ContextFields` is what is parsed."""
    assert set(typing.get_type_hints(tertulia.ConversationFields)) == {*ContextFields.__struct_fields__, "tools"}
    assert tuple(typing.get_type_hints(tertulia.LimitFields)) == Limits.__struct_fields__
    assert tuple(typing.get_type_hints(tertulia.AgentFields)) == AgentSpec.__struct_fields__
