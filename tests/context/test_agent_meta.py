"""An agent's description: what is taken, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.context.agent_meta import AgentInstanceMeta, check_agent_name
from tertulia.errors import InvalidParamsError
from tests.tables import each_row


def test_an_agent_has_the_fields_of_the_design() -> None:
    """S001-01."""
    meta = AgentInstanceMeta(
        name="ada", archetype="service", backend_type="pi", workspace_policy="ephemeral", launch_mode="direct"
    )
    assert (meta.name, meta.archetype, meta.backend_type) == ("ada", "service", "pi")
    assert (meta.workspace_policy, meta.launch_mode) == ("ephemeral", "direct")


def test_a_mapping_is_taken_in_either_spelling_and_other_fields_are_kept() -> None:
    """S001-01: other fields allowed."""
    camel = {"name": "ada", "backendType": "cursor", "workspacePolicy": "ephemeral", "launchMode": "direct", "team": 7}
    snake = {"name": "ada", "backend_type": "cursor", "workspace_policy": "ephemeral", "launch_mode": "direct"}
    assert AgentInstanceMeta.of(camel) == AgentInstanceMeta.of({**snake, "extra": {"team": 7}})
    assert AgentInstanceMeta.of(camel).extra == {"team": 7}
    assert AgentInstanceMeta.of(AgentInstanceMeta.of(snake)) == AgentInstanceMeta.of(snake)


def test_a_name_is_lent_only_where_there_is_none() -> None:
    assert AgentInstanceMeta.of({}, "eva").name == "eva"
    assert AgentInstanceMeta.of({"name": "ada"}, "eva").name == "ada"


def test_an_unknown_archetype_is_no_error() -> None:
    """X-47."""
    assert AgentInstanceMeta(name="ada", archetype="wizard").archetype == "wizard"


def test_what_is_known_of_an_agent_cannot_be_changed_by_those_who_are_told() -> None:
    meta = AgentInstanceMeta.of({"name": "ada", "team": 7})
    with pytest.raises(AttributeError):
        meta.archetype = "employee"  # type: ignore[misc]
    with pytest.raises(TypeError):
        meta.extra["team"] = 8  # type: ignore[index]
    assert msgspec.structs.replace(meta, archetype="service").extra == {"team": 7}


BAD_NAMES = [
    "",
    "../x",
    "a/b",
    "a\\b",
    "..",
    ".hidden",
    "-rf",
    "a b",
    "a\0b",
    "a\n",
    "ü",
    "x" * 65,
    "x" * 4096,
    None,
    7,
]


@each_row("name", BAD_NAMES, ids=lambda name: repr(name)[:20])
def test_a_name_that_could_leave_its_place_is_refused(name: Any) -> None:
    """S001-51."""
    with pytest.raises(InvalidParamsError, match="agent name"):
        check_agent_name(name)
    with pytest.raises(InvalidParamsError, match="agent name"):
        AgentInstanceMeta(name=name)


@each_row("name", ["a", "my-agent", "A.b_c-9", "x" * 64])
def test_ordinary_names_are_taken(name: str) -> None:
    """S001-51."""
    assert check_agent_name(name) == name


@each_row(
    ("changes", "expected"),
    [
        ({"archetype": ""}, "archetype"),
        ({"archetype": "a\nb"}, "archetype"),
        ({"archetype": None}, "archetype"),
        ({"backend_type": "x" * 201}, "backend_type"),
        ({"backend_type": "\ud800"}, "backend_type"),
        ({"workspace_policy": "eternal"}, "workspace_policy"),
        ({"launch_mode": "acp-background"}, "launch_mode"),
        ({"cwd": ""}, "cwd"),
        ({"cwd": "/a\0b"}, "cwd"),
        ({"extra": 5}, "extra"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_by_its_name(changes: dict[str, Any], expected: str) -> None:
    """S001-01, X-49."""
    with pytest.raises(InvalidParamsError, match=expected):
        AgentInstanceMeta.of({"name": "ada", **changes})


@each_row("value", [None, 5, "ada", ["ada"], {}])
def test_what_is_no_description_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParamsError):
        AgentInstanceMeta.of(value)
