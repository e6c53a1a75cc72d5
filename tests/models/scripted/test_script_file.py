"""Scripts as people write them, and what they are told when they write them wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import UserDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.models.scripted.script import (
    Match,
    ModelScript,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    call,
    fail,
    say,
)
from tertulia.models.scripted.script_file import MAX_FILE_BYTES, load_script, parse_reply, parse_script
from tertulia.protocol.items import Usage
from tests.deadlines import HANG_S
from tests.tables import Large, each_row


def refusal(value: object) -> str:
    with pytest.raises(InvalidParamsError) as refused:
        parse_reply(value, "reply 3")
    message = refused.value.message
    assert message.startswith("reply 3: ")
    assert len(message) < 400
    assert "\n" not in message
    message.encode()
    return message.removeprefix("reply 3: ")


def file_refusal(path: Path) -> str:
    with pytest.raises(InvalidParamsError) as refused:
        load_script(path)
    message = refused.value.message
    assert message.startswith(str(path))
    assert "\n" not in message
    message.encode()
    return message.removeprefix(str(path))


# ---- replies


def test_a_text_is_a_plain_answer() -> None:
    assert parse_reply("Yes.", "reply 1") == ScriptedReply(text="Yes.")


def test_replies_and_calls_are_taken_as_they_are() -> None:
    assert parse_reply(call("shell"), "reply 1") == ScriptedReply(tool_calls=(ScriptedCall("shell"),))
    reply = say("Yes.")
    assert parse_reply(reply, "reply 1") is reply


def test_a_mapping_can_say_everything() -> None:
    form = {
        "text": "I will look.",
        "reasoning": "Hm.",
        "tool_calls": [
            {"name": "shell", "arguments": {"command": ["ls"]}, "call_id": "mine"},
            {"name": "shell", "arguments": "{broken"},
            {"name": "update_plan"},
            {"name": "update_plan", "arguments": None},
            call("view_image"),
        ],
        "error": {"message": "Too long", "code": "limit", "overflow": True},
        "retrying": "again",
        "stop_reason": "length",
        "usage": {"input_tokens": 3},
        "delay_ms": 1,
        "delay_between_ms": 0.5,
        "match": {"contains": "a", "regex": "b", "conversation": "c"},
        "repeat": True,
    }
    expected = ScriptedReply(
        text="I will look.",
        reasoning="Hm.",
        tool_calls=(
            ScriptedCall("shell", '{"command":["ls"]}', "mine"),
            ScriptedCall("shell", "{broken"),
            ScriptedCall("update_plan"),
            ScriptedCall("update_plan"),
            ScriptedCall("view_image"),
        ),
        error=ScriptedError("Too long", "limit", True),
        retrying="again",
        stop_reason="length",
        usage=Usage(3),
        delay_ms=1,
        delay_between_ms=0.5,
        match=Match("a", "b", "c"),
        repeat=True,
    )
    before = json.dumps(form, default=str)
    assert parse_reply(form, "reply 1") == expected
    assert parse_reply(UserDict(form), "reply 1") == expected
    assert json.dumps(form, default=str) == before, "what we are given stays as it is"


def test_a_match_and_an_error_can_be_a_text() -> None:
    assert parse_reply({"text": "a", "match": "notes"}, "reply 1") == say("a", match="notes")
    assert parse_reply({"error": "Overloaded"}, "reply 1") == fail("Overloaded")


@each_row(
    ("value", "complaint"),
    [
        (None, "expected a text or a mapping, not nothing"),
        (42, "expected a text or a mapping, not a whole number"),
        (True, "expected a text or a mapping, not true or false"),
        (["a"], "expected a text or a mapping, not a list"),
        (b"a", "expected a text or a mapping, not bytes"),
        ({"txt": "a"}, "unknown key `txt`; did you mean `text`?"),
        ({"text": "a", "tool_call": []}, "unknown key `tool_call`; did you mean `tool_calls`?"),
        ({"gate": None, "text": "a"}, "unknown key `gate`; known are text, reasoning, tool_calls, error, cut, "),
        ({1: "a"}, "unknown key `1`; known are text, "),
        ({True: "a"}, "unknown key `True`; known are text, "),
        ({"\ud800": "a"}, "unknown key `\\ud800`; known are "),
        ({"x" * 10_000: "a"}, "unknown key `" + "x" * 39 + "…`; known are "),
        ({"text": 42}, "text: expected a text or nothing, got a whole number"),
        ({"text": ["a"]}, "text: expected a text or nothing, got a list"),
        ({"text": "a", "repeat": "yes"}, "repeat: expected true or false, got a text"),
        ({"text": "a", "delay_ms": "1s"}, "delay_ms: expected a number, got a text"),
        ({"text": "a", "delay_ms": -1}, "a delay must lie between 0 and 3,600,000 ms"),
        (
            {"text": "a", "stop_reason": "done"},
            "stop_reason: expected one of length, other, pause, refusal, stop, tool_calls",
        ),
        ({"text": "a", "usage": {"input_token": 1}}, "usage: unknown key `input_token`; did you mean `input_tokens`?"),
        ({"text": "a", "usage": {"input_tokens": "1"}}, "usage.input_tokens: expected a whole number, got a text"),
        ({"text": "a", "usage": {"input_tokens": -1}}, "usage cannot be negative"),
        ({"text": "a", "usage": 5}, "usage: expected a mapping or nothing, got a whole number"),
        ({"error": {"mesage": "a"}}, "error: unknown key `mesage`; did you mean `message`?"),
        ({"error": {}}, "error: it lacks the key `message`"),
        ({"error": "a", "cut": True}, "error and cut are two different endings, give one of them"),
        ({"text": "a", "match": {}}, "match needs contains, regex or conversation"),
        ({"text": "a", "match": {"regexp": "a"}}, "match: unknown key `regexp`; did you mean `regex`?"),
        ({"text": "a", "match": {"regex": "("}}, "match.regex is not a regular expression (at character 1)"),
        ({"text": "a", "match": ["a"]}, "match: expected a mapping or nothing, got a list"),
        ({"tool_calls": {"name": "a"}}, "tool_calls: expected a list, got a mapping"),
        ({"tool_calls": "shell"}, "tool_calls: expected a list, got a text"),
        ({"tool_calls": ["shell"]}, "tool_calls[0]: expected a mapping, got a text"),
        ({"tool_calls": [{}]}, "tool_calls[0]: it lacks the key `name`"),
        ({"tool_calls": [{"name": "a"}, {"nam": "b"}]}, "tool_calls[1]: unknown key `nam`; did you mean `name`?"),
        ({"tool_calls": [{"name": 1}]}, "tool_calls[0].name: expected a text, got a whole number"),
        (
            {"tool_calls": [{"name": "a", "arguments": [1]}]},
            "tool_calls[0].arguments: expected a mapping or a text, not a list",
        ),
        ({"tool_calls": [{"name": "a", "arguments": {True: 1}}]}, "arguments cannot be written as JSON ("),
        ({"text": "\ud800"}, "a reply has a lone surrogate at position 0; send valid Unicode"),
        ({}, "a reply needs text, tool_calls, error or cut"),
    ],
)
def test_what_is_wrong_with_a_reply_is_said_in_its_own_words(value: object, complaint: str) -> None:
    assert refusal(value).startswith(complaint)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(ScriptedReply.__struct_fields__)


@given(st.dictionaries(_keys, _json, max_size=4) | _json)
def test_plain_data_are_a_reply_or_one_sentence(value: object) -> None:
    try:
        assert isinstance(parse_reply(value, "reply 3"), ScriptedReply)
    except InvalidParamsError:
        refusal(value)


# ---- scripts


def test_a_script_is_a_list_or_a_mapping_with_settings() -> None:
    assert parse_script(["a", {"text": "b"}], "s") == ModelScript((say("a"), say("b")))
    assert parse_script({"replies": ["a"], "repeat": True, "context_window": 8000}, "s") == ModelScript(
        (say("a"),), True, 8000
    )


@each_row(
    ("value", "complaint"),
    [
        (None, "s: expected a list of replies, or a mapping with `replies`"),
        ("a", "s: expected a list of replies, or a mapping with `replies`"),
        ([], "s: it has no replies"),
        ({"replies": []}, "s: it has no replies"),
        (["a"] * 10_001, "s: it has 10,001 replies; the limit is 10,000"),
        ({}, "s: it lacks the key `replies`"),
        ({"replies": "a"}, "s: replies: expected a list, got a text"),
        ({"reply": ["a"]}, "s: unknown key `reply`; did you mean `replies`?"),
        ({"replies": ["a"], "repeat": 1}, "s: repeat: expected true or false, got a whole number"),
        ({"replies": ["a"], "context_window": 0}, "s: context_window: expected a whole number of at least 1"),
        (["a", {"txt": "b"}], "s, reply 2: unknown key `txt`; did you mean `text`?"),
    ],
)
def test_what_is_wrong_with_a_script_is_said_with_its_place(value: object, complaint: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        parse_script(value, "s")
    assert refused.value.message == complaint


# ---- files


def test_yaml_and_json_files_are_the_same_script(tmp_path: Path) -> None:
    replies = ["Yes.", {"text": "No.", "match": "not"}]
    expected = ModelScript((say("Yes."), say("No.", match="not")))
    for name in ("script.json", "script.yaml", "script.yml", "SCRIPT.YAML"):
        path = tmp_path / name
        path.write_text(json.dumps(replies))
        assert load_script(path) == load_script(str(path)) == expected


def test_a_byte_order_mark_is_no_part_of_a_yaml_script(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_bytes(b"\xef\xbb\xbf- Yes.\n")
    assert load_script(path) == ModelScript((say("Yes."),))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", b"- a", ": a script is a .yaml, .yml or .json file"),
        ("a", b"- a", ": a script is a .yaml, .yml or .json file"),
        ("a.yaml", b"", ": it is empty"),
        ("a.json", b" \n\t", ": it is empty"),
        ("a.yaml", b"# only a comment", ": expected a list of replies, or a mapping with `replies`"),
        ("a.json", b"null", ": expected a list of replies, or a mapping with `replies`"),
        ("a.json", b"[", ": it is not JSON (at line 1, column 2)"),
        ("a.json", b"\x7fELF\x02\x01", ": it is not JSON ("),
        ("a.json", b'["\xff\xfe"]', ": it is not JSON ("),
        ("a.json", b"[" * 100_000, ": it is nested too deeply"),
        ("a.yaml", b"\x7fELF\x02\x01\xff", ": it is not text in UTF-8"),
        ("a.yaml", b"\x7fELF\x02\x01", ": it has a character that cannot stand in YAML"),
        ("a.yaml", b"\x00" * 100, ": it has a character that cannot stand in YAML"),
        ("a.yaml", b"[" * 100_000, ": it is nested too deeply"),
        ("a.yaml", b"- &a x\n- *a", ": line 2: aliases (*name) are not accepted"),
        ("a.yaml", b"- !!python/name:os.system", ": line 1: tags (!name) are not accepted"),
        ("a.yaml", b"- text: a\n- txt: b", ", reply 2: unknown key `txt`; did you mean `text`?"),
        ("a.yaml", b"- yes", ", reply 1: expected a text or a mapping, not true or false"),
        ("a.yaml", b"- 2024-01-01", ", reply 1: expected a text or a mapping, not a date"),
        ("a.yaml", b"- text: 2024-01-01", ", reply 1: text: expected a text or nothing, got a date"),
        ("a.yaml", b'- "\\ud800"', ", reply 1: a reply has a lone surrogate at position 0"),
        (
            "a.yaml",
            Large(lambda: b"- " + b"x" * MAX_FILE_BYTES),
            ": it is larger than 1,048,576 bytes, the limit of a script",
        ),
        (
            "a.json",
            Large(lambda: b'"' + b"x" * 10_000_000),
            ": it is larger than 1,048,576 bytes, the limit of a script",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert file_refusal(path).startswith(complaint)


def test_what_is_not_a_readable_file_is_refused_without_waiting(tmp_path: Path) -> None:
    assert file_refusal(tmp_path / "none.yaml") == ": it cannot be read (No such file or directory)"
    (tmp_path / "folder.yaml").mkdir()
    assert file_refusal(tmp_path / "folder.yaml") == ": it is not a file"
    os.mkfifo(tmp_path / "pipe.yaml")
    assert file_refusal(tmp_path / "pipe.yaml") == ": it is not a file"
    assert file_refusal(tmp_path / ("x" * 300 + ".yaml")) == ": it cannot be read (File name too long)"
    with pytest.raises(InvalidParamsError, match="it cannot be read"):
        load_script("a\x00b.yaml")
    with pytest.raises(InvalidParamsError, match="the path of a script has a lone surrogate"):
        load_script("\udcff.yaml")


def test_yaml_is_loaded_only_for_a_yaml_script(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('["Yes."]')
    (tmp_path / "script.yaml").write_text("- Yes.")
    program = (
        "import sys\nfrom tertulia.models.scripted.scripted_model import ScriptedModel\nseen = []\n"
        "ScriptedModel.tour(); ScriptedModel.from_file('script.json'); seen.append('yaml' in sys.modules)\n"
        "ScriptedModel.from_file('script.yaml'); seen.append('yaml' in sys.modules)\n"
        "sys.exit(0 if seen == [False, True] else str(seen))"
    )
    source = Path(__file__).parents[3] / "src"
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(source)}, check=True, timeout=HANG_S
    )
