"""The table of conversation fields, and the places where a type checker needs its names spelled out."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import UNSET

import tertulia
from tertulia.conversation.terms import Terms
from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import Limits
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import (
    CONVERSATION_FIELDS,
    PREFERENCES,
    RIGHT_FIELDS,
    SANDBOX,
    TOOL_SWITCHES,
    ConversationField,
    FieldKind,
    Number,
    Structured,
    Switch,
    Words,
)
from tertulia.protocol.inputs import ContextFields
from tertulia.session.settings.conversation_fields import ConversationFields, LimitFields
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.values import parse_setting
from tests.tables import each_row


def _allows(hint: Any, kind: FieldKind) -> bool:
    """Whether a type hint takes exactly what the kind takes, null aside."""
    options = {option for option in (get_args(hint) or (hint,)) if option is not NoneType}
    match kind:
        case Switch():
            return options == {bool}
        case Words():
            words = {word for option in options for word in get_args(option) or (option,)}
            return {str(word).replace("-", "_") for word in words} == set(kind.words)
        case Number():
            return options == {int if kind.whole else float}
        case Structured():
            return True


def spelling_faults(rows: tuple[ConversationField, ...] = CONVERSATION_FIELDS) -> list[str]:
    """Every place where a field is spelled out and does not agree with its row, as a sentence."""
    faults: list[str] = []
    keywords, settings, rights = (get_type_hints(kind) for kind in (ConversationFields, Settings, Rights))
    spelled = {
        "ConversationFields in session/settings/conversation_fields.py": (
            set(keywords),
            {row.name for row in rows if row.doc is not None},
        ),
        "ContextFields in protocol/inputs.py": (
            set(ContextFields.__struct_fields__),
            {row.name for row in rows if row.doc is not None and not row.python_only},
        ),
        "Rights in policy/rights.py": (set(Rights.__struct_fields__), {row.right for row in rows if row.narrows}),
        "LimitFields in session/settings/conversation_fields.py": (
            set(get_type_hints(LimitFields)),
            set(Limits.__struct_fields__),
        ),
    }
    for place, (there, wanted) in spelled.items():
        faults += [f"{name} is missing in {place}" for name in sorted(wanted - there)]
        faults += [f"{name} is in {place}, and not in the table" for name in sorted(there - wanted)]
    for row in rows:
        if row.setting is not None:
            place = "in Settings in session/settings/settings.py"
            faults += [f"{row.name} {fault} {place}" for fault in _setting_faults(row, settings)]
        if row.name in keywords and not _allows(keywords[row.name], row.kind):
            faults.append(f"{row.name} has another type in ConversationFields: {keywords[row.name]}")
        if row.narrows and row.right == row.name and row.name in rights and not _allows(rights[row.name], row.kind):
            faults.append(f"{row.name} has another type in Rights: {rights[row.name]}")
        if row.is_preference and row.name not in Terms.__struct_fields__:
            faults.append(f"{row.name} is missing in Terms in conversation/terms.py")
    return faults


def _setting_faults(row: ConversationField, hints: dict[str, Any]) -> list[str]:
    if row.name not in hints:
        return ["is missing"]
    wanted = None if row.default is None else parse_setting(row.name, row.default)
    faults = [] if msgspec.structs.asdict(Settings())[row.name] == wanted else ["has another default"]
    return faults if _allows(hints[row.name], row.kind) else [*faults, "has another type"]


def test_every_spelling_agrees_with_the_table() -> None:
    """The one test that holds them: it names the field and the place that differs."""
    assert spelling_faults() == []


def test_a_row_without_its_spellings_is_named_with_each_place() -> None:
    new = ConversationField(
        name="include_clock_tool", kind=Switch(("clock",), "include_clock_tool"), doc="x", setting="y", narrows=True
    )
    faults = spelling_faults((*CONVERSATION_FIELDS, new))
    assert "include_clock_tool is missing in ConversationFields in session/settings/conversation_fields.py" in faults
    assert "include_clock_tool is missing in Settings in session/settings/settings.py" in faults
    without = spelling_faults(tuple(row for row in CONVERSATION_FIELDS if row.name != "visibility"))
    assert "visibility is in Rights in policy/rights.py, and not in the table" in without


def test_a_preference_needs_a_place_in_the_terms() -> None:
    new = ConversationField(name="workspace", kind=Words(("shared", "worktree")), doc="x")
    assert new.is_preference
    assert "workspace is missing in Terms in conversation/terms.py" in spelling_faults((*CONVERSATION_FIELDS, new))


def test_names_of_fields_rights_and_switches_are_each_given_once() -> None:
    for names in (
        [row.name for row in CONVERSATION_FIELDS],
        [row.right for row in CONVERSATION_FIELDS if row.narrows],
        [switch.short_name for switch in TOOL_SWITCHES.values()],
        [tool for switch in TOOL_SWITCHES.values() for tool in switch.tools],
    ):
        assert len(names) == len(set(names))
        assert all(names)


def test_the_table_is_frozen() -> None:
    assert isinstance(CONVERSATION_FIELDS, tuple)
    with pytest.raises(AttributeError):
        CONVERSATION_FIELDS[0].name = "other"  # type: ignore[misc]


def test_a_right_has_the_name_of_its_field_unless_the_row_says_otherwise() -> None:
    assert {right: row.name for right, row in RIGHT_FIELDS.items() if right != row.name} == {"shell": "shell_mode"}
    settings = ["reasoning_effort", "temperature", "max_output_tokens"]
    assert list(PREFERENCES) == ["project_instructions", *settings, "shell_mode", "tool_profile"]


@each_row(
    ("kind", "value", "parsed"),
    [
        (Switch(), True, True),
        (Switch(), False, False),
        (SANDBOX, "read-only", "read_only"),
        (SANDBOX, "read_only", "read_only"),
        (Words(("a_b", "c")), "a-b", "a_b"),
    ],
)
def test_a_kind_reads_its_values(kind: Any, value: object, parsed: object) -> None:
    assert ConversationField(name="field", kind=kind).parse(value) == parsed
    assert ConversationField(name="field", kind=kind).parse(parsed) == parsed


@each_row(
    ("kind", "value", "sentence"),
    [
        (Switch(), 1, "field must be true or false, not 1"),
        (Switch(), None, "field must be true or false, not None"),
        (SANDBOX, "open", "field must be one of read-only, workspace-write, danger-full-access, not 'open'"),
        (Words(("a_b", "c")), "", "field must be one of a_b, c, not ''"),
        (Words(("a", "b")), "x" * 500, "field must be one of a, b, not '" + "x" * 79),
    ],
)
def test_a_kind_refuses_what_it_has_not_and_says_what_there_is(kind: Any, value: object, sentence: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        ConversationField(name="field", kind=kind).parse(value)
    assert refusal.value.message == sentence


def test_a_structured_value_is_left_to_the_stage_that_knows_its_parts() -> None:
    row = ConversationField(name="field", kind=Structured())
    assert row.parse({"a": 1}) == {"a": 1}
    assert not row.is_preference


def test_what_is_made_from_the_table_has_a_field_for_each_switch() -> None:
    assert set(TOOL_SWITCHES) <= set(Rights.__struct_fields__)
    assert all(getattr(ContextFields(), name) is UNSET for name in TOOL_SWITCHES)
    assert all(getattr(tertulia.Settings().rights, name) for name in TOOL_SWITCHES)


NUMBERS: list[tuple[Number, object, object]] = [
    (Number(0, 2), 0, 0.0),
    (Number(0, 2), 2, 2.0),
    (Number(0, 2), 2.01, "must be a number from 0 to 2, not 2.01"),
    (Number(0, 2), -0.1, "from 0 to 2"),
    (Number(0, 2), float("nan"), "from 0 to 2"),
    (Number(0, 2), True, "from 0 to 2"),
    (Number(0, 2), "1", "not '1'"),
    (Number(1, 1_000_000, whole=True), 7.0, 7),
    (Number(1, 1_000_000, whole=True), 7.5, "must be a whole number from 1 to 1,000,000, not 7.5"),
    (Number(1, 1_000_000, whole=True), float("inf"), "a whole number"),
]


@each_row("row", NUMBERS)
def test_a_number_is_in_its_range_or_the_range_is_told(row: tuple[Number, object, object]) -> None:
    kind, value, wanted = row
    if isinstance(wanted, str):
        with pytest.raises(InvalidParamsError) as refused:
            kind.parse("temperature", value)
        assert refused.value.message.startswith("temperature must be ")
        assert wanted in refused.value.message
    else:
        assert kind.parse("temperature", value) == wanted
        assert isinstance(kind.parse("temperature", value), int if kind.whole else float)
