"""Which variables a command gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.policy.shell_environment import ShellEnvironment, check_variable_name, shell_environment_from_wire
from tests.tables import each_row

OURS = {
    "PATH": "/usr/bin",
    "HOME": "/home/ana",
    "LC_ALL": "C",
    "EDITOR": "vi",
    "OPENAI_API_KEY": "canary",
    "GITHUB_TOKEN": "canary",
    "DB_PASSWORD": "canary",
    "client_secret": "canary",
    "AWS_CREDENTIALS": "canary",
}


def built(**table: object) -> dict[str, str]:
    return shell_environment_from_wire(table).build(OURS)


def test_a15_by_default_a_few_harmless_ones_are_inherited() -> None:
    """A15"""
    assert built() == {"PATH": "/usr/bin", "HOME": "/home/ana", "LC_ALL": "C"}
    assert built() == built(inherit="core")


def test_a15_all_is_everything_that_is_not_called_like_a_secret() -> None:
    """A15: KEY, TOKEN, SECRET, PASSWORD, in either case."""
    assert built(inherit="all") == {"PATH": "/usr/bin", "HOME": "/home/ana", "LC_ALL": "C", "EDITOR": "vi"}
    assert built(inherit="all", ignore_default_excludes=True) == OURS


def test_none_is_nothing() -> None:
    assert built(inherit="none") == {}


def test_patterns_leave_out_or_let_in() -> None:
    assert built(inherit="all", exclude=["lc_*", "HOM?"]) == {"PATH": "/usr/bin", "EDITOR": "vi"}
    assert built(inherit="all", include_only=["P*", "*TOKEN*"]) == {"PATH": "/usr/bin"}


def test_what_the_user_sets_is_there_whatever_it_is_called() -> None:
    assert built(inherit="none", set={"MY_KEY": "1"}, exclude=["MY_*"]) == {"MY_KEY": "1"}
    assert built(set={"PATH": "/opt"})["PATH"] == "/opt"
    assert built(set={"A": "1", "B": "2"}, include_only=["A"]) == {"A": "1"}


@given(
    variables=st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=4)),
    inherit=st.sampled_from(["core", "all", "none"]),
    word=st.sampled_from(["KEY", "TOKEN", "SECRET", "PASSWORD"]),
)
def test_a15_no_secret_gets_through_by_any_way_of_inheriting(variables, inherit, word) -> None:
    """A15"""
    secret = {f"x{word.lower()}y": "canary", f"{word}": "canary", f"PATH_{word.title()}": "canary"}
    result = ShellEnvironment(inherit=inherit).build({**variables, **secret})
    assert not secret.keys() & result.keys()
    assert result.items() <= variables.items()


@each_row(
    ("table", "complaint"),
    [
        ({"inherits": "all"}, "has no 'inherits'; did you mean inherit"),
        ({"zzz": 1}, "has no 'zzz'; there are inherit"),
        ({"inherit": "some"}, "inherit must be one of core, all, none"),
        ({"ignore_default_excludes": 1}, "must be true or false"),
        ({"exclude": "AWS_*"}, "exclude must be a list of patterns"),
        ({"exclude": [1]}, "exclude must be a list of patterns"),
        ({"include_only": [""]}, "include_only must be a list of patterns"),
        ({"set": ["A"]}, "set must be a table"),
        ({"set": {"A=B": "x"}}, "cannot be the name of a variable"),
        ({"set": {"": "x"}}, "cannot be the name of a variable"),
        ({"set": {"A\0": "x"}}, "cannot be the name of a variable"),
        ({"set": {1: "x"}}, "cannot be the name of a variable"),
        ({"set": {"A": 1}}, "set.A must be a text"),
        ({"set": {"A": "canary\0"}}, "set.A must be a text"),
    ],
)
def test_a_wrong_table_is_refused_by_its_key_and_shows_no_value(table, complaint) -> None:
    with pytest.raises(InvalidParamsError, match=complaint) as refused:
        shell_environment_from_wire(table)
    assert "canary" not in refused.value.message


def test_its_repr_shows_no_value() -> None:
    assert repr(ShellEnvironment(set={"A": "canary"})) == "ShellEnvironment(inherit='core', set=<A>)"


@each_row("name", ["OPENAI_API_KEY", "_x1", "A", "KEY_OF_2026_AND_MORE_THAN_20_LETTERS"])
def test_a_name_of_a_variable_is_taken_as_it_is(name: str) -> None:
    assert check_variable_name(name, "env_key") == name


@each_row("text", ["", "1A", "A-B", "A=B", "A B", "sk-short"])
def test_what_is_no_name_of_a_variable_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="letters, digits and `_`") as refusal:
        check_variable_name(text, "env_key")
    assert refusal.value.message.startswith("env_key must be the name of an environment variable")
    assert len(text) < 2 or text not in refusal.value.message


def test_a_key_in_place_of_a_name_is_told_apart_and_not_repeated() -> None:
    """D5: a secret that stands in a file by mistake does not come into a log as well."""
    key = "sk-abc123def456ghi789jkl"
    with pytest.raises(InvalidParamsError, match="looks like the key itself") as refusal:
        check_variable_name(key, "env_key")
    assert key not in refusal.value.message
