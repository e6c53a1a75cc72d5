"""What dialects share: schemas, ids that fit, and seams that close without touching what anybody said."""

from __future__ import annotations

import itertools
import json
import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tertulia.models.http.encoding import (
    MessageSeam,
    SeamJoiner,
    argument_text,
    arguments_of,
    encode,
    join_chunks,
    json_member,
    legal_call_id,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import Summary, ToolCall
from tertulia.protocol.tool_spec import ToolSpec
from tests.tables import each_row

LEGAL = re.compile(r"[a-z_0-9]{1,40}")
ID = ItemId("0" * 16)


def test_a_tool_for_text_becomes_a_function_of_one_text() -> None:
    patch = ToolSpec.define("apply_patch", "Patch files.", kind="custom", grammar="start: /.+/")
    assert json.loads(bytes(schema_of(patch))) == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert tool_description(patch) == "Patch files.\n\nThe input follows this grammar:\nstart: /.+/"
    call = ToolCall(ID, CallId("c"), "apply_patch", 'a "patch"', "custom")
    assert json.loads(argument_text(call)) == {"input": 'a "patch"'}
    assert arguments_of(call) is None


def test_a_function_stays_what_it_is() -> None:
    tool = ToolSpec.define("shell", "Runs.", {"type": "object", "properties": {"b": {}, "a": {}}})
    assert bytes(schema_of(tool)) == tool.schema.encode()
    assert tool_description(tool) == "Runs."


@each_row(
    ("written", "value", "sent"),
    [
        ('{ "a":  1 }', {"a": 1}, '{ "a":  1 }'),
        ("{}", {}, "{}"),
        ("{broken", None, '{"input":"{broken"}'),
        ("[1]", None, '{"input":"[1]"}'),
        ("", None, '{"input":""}'),
        ("9" * 10_000, None, '{"input":"%s"}' % ("9" * 10_000)),
        ("[" * 100_000, None, '{"input":"%s"}' % ("[" * 100_000)),
    ],
)
def test_arguments_that_are_no_object_stand_in_one(written: str, value: object, sent: str) -> None:
    """A call that the model got wrong was refused, and its history must still be taken by every server."""
    call = ToolCall(ID, CallId("c"), "shell", written)
    assert arguments_of(call) == value
    assert argument_text(call) == sent


def test_a_summary_says_that_it_is_one() -> None:
    assert summary_text(Summary(ID, "They said hello.")) == "<summary>\nThey said hello.\n</summary>"


def test_an_id_that_does_not_fit_is_replaced_by_one_that_follows_from_it() -> None:
    assert legal_call_id("call_1", LEGAL) == "call_1"
    replaced = legal_call_id("functions.shell:0", LEGAL)
    assert LEGAL.fullmatch(replaced)
    assert legal_call_id("functions.shell:0", LEGAL) == replaced
    assert legal_call_id("functions.shell:1", LEGAL) != replaced
    assert LEGAL.fullmatch(legal_call_id("", LEGAL))


def test_members_and_chunks_are_put_together() -> None:
    assert json.loads(b'{"a":1%b}' % json_member("b", encode([2]))) == {"a": 1, "b": [2]}
    assert join_chunks((b"1",)) == b"1"
    assert join_chunks((b"1", b"2,3")) == b"1,2,3"


JOINER = SeamJoiner(MessageSeam(b"] }", b'{ "a":[', b","), MessageSeam(b"]  }", b'{ "b":[', b","))


def message(name: str, values: list[object]) -> bytes:
    end = b"] }" if name == "a" else b"]  }"
    return b'{ "%b":[%b%b' % (name.encode(), encode(values)[1:-1], end)


values = st.recursive(st.none() | st.integers(-9, 9) | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
spiteful = st.sampled_from(['] },{ "a":[', "] },{ ", '"] },{ ', '\\"] },{ "a":[', "]  },{ ", " }"])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(values | spiteful, min_size=1))), st.data())
def test_neighbours_of_one_kind_become_one_and_nothing_else_changes(
    expected_text: list[tuple[str, list[object]]], data: st.DataObject
) -> None:
    """Whatever is in the values, seams included, and however the messages lie in chunks."""
    spelled = [message(name, held) for name, held in expected_text]
    cuts = sorted({0, *data.draw(st.lists(st.integers(0, len(spelled)))), len(spelled)})
    chunks = [b",".join(spelled[a:b]) for a, b in itertools.pairwise(cuts)]
    expected: list[dict[str, list[object]]] = []
    for name, held in expected_text:
        if expected and name in expected[-1]:
            expected[-1][name].extend(held)
        else:
            expected.append({name: list(held)})
    assert msgspec.json.decode(b"[%b]" % b"".join(JOINER.join(chunks))) == expected


def test_what_has_no_seam_is_not_copied() -> None:
    chunk = message("a", ["x" * 100])
    assert JOINER.join([chunk])[0] is chunk
    assert JOINER.join([]) == []
    assert SeamJoiner().join([b"1", b"2"]) == [b"1", b",", b"2"]
