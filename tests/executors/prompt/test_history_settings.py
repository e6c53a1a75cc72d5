"""How much is told: by table, by kind of task, by variables."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.executors.prompt.history_prompt import (
    HistorySettings,
    TaskHistorySettings,
    build_executor_prompt_with_history,
    parse_history_settings,
    read_history_variables,
)
from tertulia.session.settings.layers import merge
from tests.tables import each_row

MESSAGES = [{"role": "user", "text": f"ask {n} " + "x" * 3_000} for n in range(15)]


def test_nothing_said_is_the_defaults() -> None:
    """S003-12, X-55"""
    settings = parse_history_settings({}, {})
    assert settings == HistorySettings()
    assert settings.of("code") == settings.of(None) == TaskHistorySettings(max_chars=40_000)
    assert settings.of("chat") == TaskHistorySettings(max_chars=20_000)


def test_a_table_holds_for_all_tasks_and_its_parts_for_their_kind() -> None:
    """S003-12"""
    table = {"max_messages": 4, "mode": "last-round", "chat": {"mode": "off", "max_chars": 9}}
    settings = parse_history_settings(table)
    assert settings.code == TaskHistorySettings(mode="last_round", max_messages=4)
    assert settings.chat == TaskHistorySettings(mode="off", max_messages=4, max_chars=9)


def test_variables_hold_against_the_table() -> None:
    """S003-12, X-61"""
    variables = {
        "EXECUTOR_HISTORY_MODE": "LAST_ASSISTANT",
        "EXECUTOR_HISTORY_MAX_MESSAGES": " 3 ",
        "EXECUTOR_HISTORY_MAX_CHARS": "1000",
        "EXECUTOR_HISTORY_PER_MESSAGE_MAX_CHARS": "50",
        "PATH": "/bin",
    }
    table: Any = {"max_messages": 7, "chat": {"max_chars": 5}}
    for layer in read_history_variables(variables).values():
        table = merge(table, layer)
    settings = parse_history_settings(table)
    task_history_settings = TaskHistorySettings(
        mode="last_assistant", max_messages=3, max_chars=1_000, per_message_max_chars=50
    )
    assert settings == HistorySettings(code=task_history_settings, chat=task_history_settings)


def test_an_empty_variable_is_none() -> None:
    assert read_history_variables({"EXECUTOR_HISTORY_MODE": "", "EXECUTOR_HISTORY_MAX_CHARS": " "}) == {}


@each_row(
    ("table", "named"),
    [
        ({"mode": "of"}, "executors.history.mode must be one of"),
        ({"mode": 1}, "executors.history.mode"),
        ({"max_messages": "4"}, "executors.history.max_messages must be a whole number from 0 to"),
        ({"per_message_max_chars": 0}, "from 1 to"),
        ({"max_messages": 10**30}, "not a larger one"),
        ({"max_messages": -(10**5000)}, "not a larger one"),
        ({"max_chars": True}, "not True"),
        ({"max_char": 4}, "did you mean max_chars"),
        ({"zzz": 4}, "there are mode"),
        ({"chat": 4}, "executors.history.chat must be a table"),
        ({"chat": {"max_chars": -1}}, "executors.history.chat.max_chars"),
        ({"code": {"chat": {}}}, "executors.history.code has no 'chat'"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_by_name(table: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidParamsError, match=named):
        parse_history_settings(table)


@each_row("value", ["-1", "1.5", "many", "1_000", "٣", "9" * 30])
def test_a_variable_that_is_no_number_is_refused_by_name(value: str) -> None:
    with pytest.raises(InvalidParamsError, match="EXECUTOR_HISTORY_MAX_CHARS must be a whole number"):
        read_history_variables({"EXECUTOR_HISTORY_MAX_CHARS": value})


def test_an_off_switch_with_a_slip_in_it_is_refused_and_not_passed_over() -> None:
    """S003-17, X-61: history would be told that was not to be."""
    with pytest.raises(InvalidParamsError, match="EXECUTOR_HISTORY_MODE must be one of full, last_round"):
        read_history_variables({"EXECUTOR_HISTORY_MODE": "offf"})


def test_a_prompt_is_built_as_the_settings_say() -> None:
    """S003-12, S003-17"""
    settings = parse_history_settings({"chat": {"mode": "off"}}, {})
    assert settings.chat.prompt(MESSAGES, "now") == "now"
    assert settings.code.prompt(MESSAGES, "now", "r") == build_executor_prompt_with_history(
        MESSAGES, "now", previous_result="r"
    )
