"""The setting `notify`: what is accepted, and how a mistake is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.session.notifications.notify_table import NotifyTable, notify_from_wire
from tests.tables import each_row

SECRET = "sk-canary-4f19"


@each_row(
    "value, expected",
    [
        (["notify-send", "done"], NotifyTable(command=("notify-send", "done"), as_codex=True)),
        ({"command": ["tell"], "on": ["approval"]}, NotifyTable(command=("tell",), on=("approval",))),
        ({"url": "https://hooks.example/a"}, NotifyTable(url="https://hooks.example/a")),
        ({"url": "http://127.0.0.1:8080/", "timeout_s": 2}, NotifyTable(url="http://127.0.0.1:8080/", timeout_s=2.0)),
        ({"url": "http://[::1]/", "content": False}, NotifyTable(url="http://[::1]/", content=False)),
        ({"command": ["a"], "on": ["failure", "complete"]}, NotifyTable(command=("a",), on=("complete", "failure"))),
    ],
)
def test_a_program_or_an_address_is_told(value: Any, expected: NotifyTable) -> None:
    assert notify_from_wire(value) == expected


@each_row(
    "value, words",
    [
        ("beep", "must be a list"),
        ([1], "must be a list of strings"),
        ([""], "must be a list of strings"),
        (["a\0b"], "must be a list of strings"),
        ({"comand": ["a"]}, "did you mean command"),
        ({"as_codex": True, "command": ["a"]}, "there is no setting 'as_codex'"),
        ({"on": ["complete"]}, "needs `command`"),
        ({"command": "tell"}, "notify.command must be a list of strings"),
        ({"command": ["a"], "on": []}, "some of complete, failure, approval"),
        ({"command": ["a"], "on": ["done"]}, "some of complete, failure, approval"),
        ({"command": ["a"], "timeout_s": 0}, "notify.timeout_s"),
        ({"command": ["a"], "timeout_s": float("nan")}, "notify.timeout_s"),
        ({"command": ["a"], "timeout_s": 61}, "up to 60"),
        ({"command": ["a"], "content": "no"}, "notify.content"),
        ({"command": ["a"], "bearer_token_env_var": "TOKEN"}, "set notify.url too"),
        ({"url": "http://hooks.example/"}, "must begin with https://"),
        ({"url": "http://127.0.0.1.evil.example/"}, "must begin with https://"),
        ({"url": "ftp://hooks.example/"}, "must be an address"),
        ({"url": "https://:99999/"}, "must be an address"),
        ({"url": f"https://me:{SECRET}@hooks.example/"}, "must not hold a password"),
        ({"url": "https://hooks.example/", "bearer_token_env_var": SECRET}, "the name of an environment variable"),
    ],
)
def test_what_cannot_be_told_is_refused_without_its_value(value: Any, words: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        tertulia.Settings(model="scripted/x", notify=value)
    assert words in refused.value.message
    assert SECRET not in refused.value.message


@each_row("value", [[], (), {}])
def test_nothing_is_told_where_nothing_is_set(value: Any) -> None:
    assert not tertulia.Settings(model="scripted/x", notify=value).notify


def test_its_repr_shows_no_argument_and_no_address() -> None:
    table = notify_from_wire({"command": ["curl", SECRET], "url": f"https://hooks.example/{SECRET}"})
    assert SECRET not in repr(table)
