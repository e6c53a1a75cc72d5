"""The prompt of an agent that does not remember: what is in it, in which order, and what is never in it.

S003-23: several turns, pipelines, shapes of results, cuts, names in groups.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.executors.prompt.history_prompt import build_executor_prompt_with_history as build
from tertulia.executors.prompt.history_section import CURRENT, HISTORY, LEFT_OUT, PREVIOUS, heading
from tests.tables import each_row

Message = dict[str, Any]


def user(text: str, **more: object) -> Message:
    return {"role": "user", "text": text, **more}


def model(text: str) -> Message:
    return {"role": "assistant", "result": {"value": text}}


def rounds(number: int) -> list[Message]:
    return [message for n in range(number) for message in (user(f"ask {n}."), model(f"answer {n}."))]


def history_of(prompt: str) -> str:
    """The section alone; none when there is none."""
    section, found, _ = prompt.partition(f"\n\n{heading(CURRENT)}\n\n")
    return section if found and section.startswith(heading(HISTORY)) else ""


# ---- sections


def test_it_is_public() -> None:
    """S003-02"""
    assert tertulia.build_executor_prompt_with_history is build


def test_sections_stand_in_order_with_the_messages_in_theirs() -> None:
    """S003-03, S003-04, S003-08, S003-20"""
    prompt = build(rounds(3), "and now?", previous_result="step one is done")
    places = [prompt.index(part) for part in (HISTORY, "ask 0.", "answer 0.", "ask 2.", "answer 2.", CURRENT)]
    assert places == sorted(places)
    assert prompt.endswith(f"{heading(CURRENT)}\n\nand now?\n\n{heading(PREVIOUS)}\n\nstep one is done")
    assert "User: ask 1.\n\nAssistant: answer 1.\n\nUser: ask 2." in prompt


@each_row("current", ["do it", "", "  two\n\nlines \n", "## Current User Message\nUser: x", "\0\u202e" * 9])
def test_the_first_turn_is_the_bare_message(current: str) -> None:
    """S003-16: byte for byte, no empty headings."""
    assert build([], current) == current
    assert (
        build([user("  "), {"role": "assistant", "result": None}, {"role": "system", "text": "be"}], current) == current
    )


@pytest.mark.parametrize("previous", [None, "a result"])
def test_off_is_the_bare_message_whatever_else_there_is(previous: str | None) -> None:
    """S003-17, X-61"""
    assert build(rounds(5), " do\r\nit ", mode="off", previous_result=previous) == " do\r\nit "


def test_a_first_step_with_a_previous_result_has_that_section_and_no_history() -> None:
    """S003-15, S003-16"""
    prompt = build([], "review it", previous_result={"value": "a patch", "session_id": "s-1"})
    assert prompt == f"{heading(CURRENT)}\n\nreview it\n\n{heading(PREVIOUS)}\n\na patch"


def test_the_current_message_is_never_cut_or_changed() -> None:
    """S003-14"""
    current = "## Previous execution result\n" + "x" * 100_000 + "\nUser: y"
    assert f"{heading(CURRENT)}\n\n{current}" in build(rounds(1), current, max_chars=300, per_message_max_chars=5)


def test_the_same_is_built_each_time_and_the_messages_are_left_alone() -> None:
    """S003-02, S003-21"""
    messages = [user("hi", username="ann"), model("yo")]
    first = build(messages, "go")
    assert build(messages, "go") == first
    assert messages == [user("hi", username="ann"), model("yo")]


# ---- where history ends


def test_history_ends_before_the_current_message() -> None:
    """S003-04, X-53: also where it was loaded with the others, and its answer has begun."""
    earlier = rounds(1)
    expected = build(earlier, "now")
    assert build([*earlier, user("now")], "now") == expected
    assert build([*earlier, user("now"), {"role": "assistant", "result": None}], "now") == expected
    assert build([*earlier, user("User[ann]: now", username="ann")], "now") == expected


def test_who_asks_the_same_again_still_has_the_answer_of_the_first_time() -> None:
    """S003-20"""
    prompt = build([user("continue"), model("half is done")], "continue")
    assert history_of(prompt).endswith("User: continue\n\nAssistant: half is done")


def test_the_previous_result_is_not_doubled_in_history() -> None:
    """S003-15, X-53: the step before, and those before it of the same message, are no history."""
    steps = [user("build"), model("plan"), model("code")]
    prompt = build([*rounds(1), *steps], "build", previous_result={"value": "code"})
    assert prompt == build(rounds(1), "build", previous_result="code")
    assert prompt.count("code") == 1
    assert "plan" not in prompt


def test_a_previous_result_of_another_question_leaves_the_question_in_history() -> None:
    """S003-15"""
    prompt = build([user("build"), model("code")], "review", previous_result="code")
    assert history_of(prompt).endswith("User: build")
    assert prompt.count("code") == 1


# ---- shapes


@each_row(
    ("result", "expected"),
    [
        ("plain", "plain"),
        ({"value": "v", "text": "t"}, "v"),
        ({"text": "t", "session_id": "SECRET"}, "t"),
        ({"value": None, "output": "o"}, "o"),
        ({"value": 42}, "42"),
        ({"value": {"text": "inner", "token": "SECRET"}}, "inner"),
        ({"value": [{"type": "text", "text": "one"}, "two"]}, "one\ntwo"),
        ({"value": {"passed": 3, "files": ["a.py"]}, "session_id": "SECRET"}, '{"passed":3,"files":["a.py"]}'),
        ({"value": [{"n": 1}], "token": "SECRET"}, '[{"n":1}]'),
        ([{"text": "a"}, {"events": ["SECRET"]}, "b"], "a\nb"),
    ],
)
def test_results_of_every_shape_give_their_text(result: object, expected: str) -> None:
    """S003-05, S003-06, X-54: and never what steers the machinery."""
    prompt = build([user("q"), {"role": "assistant", "result": result}], "now")
    assert history_of(prompt).endswith(f"Assistant: {expected}")
    assert "SECRET" not in prompt


@each_row("result", [None, "", "  ", {}, [], {"value": ""}, {"session_id": "SECRET", "usage": {"n": 1}}])
def test_a_result_without_text_is_passed_over(result: object) -> None:
    """S003-06, X-54"""
    prompt = build([user("q"), {"role": "assistant", "result": result}], "now")
    assert history_of(prompt).endswith("User: q")
    assert "SECRET" not in prompt


def test_a_value_goes_before_the_text_and_the_text_before_other_fields() -> None:
    """S003-05"""
    both: Message = {"role": "assistant", "text": "text"}
    assert "Assistant: value" in build([both | {"result": {"value": "value"}}], "now")
    assert "Assistant: text" in build([both | {"result": {"output": "other"}}], "now")


def test_a_previous_result_that_is_not_a_text_is_told_within_the_limits() -> None:
    """S003-15, X-54 as narrowed: serialised, bounded like a history, and marked where it was cut."""
    prompt = build([], "review", previous_result={"findings": [{"line": 3}], "session_id": "SECRET"})
    assert prompt.endswith('## Previous execution result\n\n{"findings":[{"line":3}]}')
    long = build(
        [], "review", previous_result={"findings": ["x" * 500] * 500}, max_chars=2_000, per_message_max_chars=9
    )
    assert "characters cut" in long
    assert len(long) < 2_200
    # A step's own words are its whole answer.
    assert "x" * 50_000 in build([], "review", previous_result="x" * 50_000)


def test_roles_may_be_written_in_capitals() -> None:
    assert "User: q\n\nAssistant: a" in build(
        [{"role": "USER", "text": "q"}, {"role": "ASSISTANT", "text": "a"}], "now"
    )


# ---- modes


def test_the_last_round_alone() -> None:
    """S003-18"""
    prompt = build([*rounds(2), user("ask 2."), model("part."), model("rest.")], "now", mode="last_round")
    assert history_of(prompt).endswith("User: ask 2.\n\nAssistant: part.\n\nAssistant: rest.")
    assert "ask 1." not in prompt


def test_the_last_assistant_message_alone() -> None:
    """S003-18"""
    prompt = build([*rounds(3), user("unanswered")], "now", mode="last_assistant")
    assert history_of(prompt).endswith("Assistant: answer 2.")
    assert "ask" not in prompt.replace("asked", "").replace("ask for", "")
    assert build([user("q")], "now", mode="last_assistant") == "now"


# ---- limits


def test_the_defaults_are_twelve_messages_four_thousand_each_and_a_total_by_kind_of_task() -> None:
    """S003-09, S003-10, S003-11, S003-12, X-55"""
    prompt = build(rounds(7), "now")
    assert "ask 0." not in prompt
    assert f"{LEFT_OUT}\n\nUser: ask 1." in prompt
    long = [user(f"{n} " + "x" * 5_000) for n in range(12)]
    for kind, total in (("code", 40_000), ("chat", 20_000)):
        section = history_of(build(long, "now", task_type=kind))  # type: ignore[arg-type]
        assert total - 4_100 < len(section) <= total
        assert all(len(line) <= 4_000 + len("User: ") for line in section.splitlines())


def test_the_order_is_count_then_each_then_total() -> None:
    """X-57: cut first to 100 each, all twelve fit; a total taken first would have room for one."""
    section = history_of(build([user("y" * 900) for _ in range(20)], "now", max_chars=2_000, per_message_max_chars=100))
    assert section.count("User: ") == 12


@pytest.mark.parametrize("limit", ["max_messages", "max_chars"])
def test_no_room_for_history_is_the_bare_message(limit: str) -> None:
    assert build(rounds(2), "now", **{limit: 0}) == "now"  # type: ignore[arg-type]


@each_row(
    ("wrong", "named"),
    [
        ({"mode": "some"}, "mode must be one of full, last_round, last_assistant, off"),
        ({"task_type": "poem"}, "task_type must be one of code, chat"),
        ({"max_messages": -1}, "max_messages"),
        ({"max_messages": True}, "max_messages"),
        ({"max_chars": 1.5}, "max_chars"),
        ({"per_message_max_chars": 0}, "per_message_max_chars"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParamsError, match=named):
        build([], "now", **wrong)


@each_row(
    ("messages", "named"),
    [
        (["hi"], r"messages\[0\] must be a table"),
        ([user("a"), {"text": "b"}], r"messages\[1\].role"),
        ([{"role": "user", "text": 7}], r"messages\[0\]: text and username"),
        ([{"role": "user", "text": "x", "username": 7}], r"messages\[0\]: text and username"),
    ],
)
def test_messages_of_a_wrong_form_are_refused_by_number(messages: list[Any], named: str) -> None:
    with pytest.raises(InvalidParamsError, match=named):
        build(messages, "now")
    with pytest.raises(InvalidParamsError, match="current_message"):
        build([], 7)  # type: ignore[arg-type]


# ---- the log


def test_the_log_has_numbers_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """S003-19"""
    with caplog.at_level(logging.INFO, logger="tertulia.executors.prompt.history_prompt"):
        prompt = build([user("canary one", username="canary")] * 14, "canary two", previous_result="canary three")
    (record,) = caplog.records
    get_message = record.getMessage()
    assert "12 of 14 earlier messages, truncated: True, previous result: True" in get_message
    assert f"{len(prompt)} characters" in get_message
    assert "canary" not in get_message
