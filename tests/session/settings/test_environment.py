"""Places and variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.session.settings.environment import Environment


def test_without_any_variable_the_usual_places_below_home_are_used() -> None:
    environment = Environment.read({"HOME": "/home/ana"})
    assert environment.user_home == Path("/home/ana")
    assert environment.home == Path("/home/ana/.local/share/tertulia")
    assert environment.config_file == Path("/home/ana/.config/tertulia/config.toml")


def test_the_xdg_directories_are_honoured() -> None:
    environment = Environment.read({"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"})
    assert environment.home == Path("/d/tertulia")
    assert environment.config_file == Path("/c/tertulia/config.toml")


def test_our_own_variable_goes_before_xdg() -> None:
    assert Environment.read({"HOME": "/h", "XDG_DATA_HOME": "/d", "TERTULIA_HOME": "/t"}).home == Path("/t")


@pytest.mark.parametrize("value", ["", "relative/dir"])
def test_an_xdg_directory_that_is_empty_or_relative_is_ignored(value) -> None:
    environment = Environment.read(
        {"HOME": "/h", "XDG_DATA_HOME": value, "XDG_CONFIG_HOME": value, "TERTULIA_HOME": ""}
    )
    assert environment.home == Path("/h/.local/share/tertulia")
    assert environment.config_file == Path("/h/.config/tertulia/config.toml")


def test_our_home_is_absolute_even_when_written_otherwise() -> None:
    assert Environment.read({"HOME": "/h", "TERTULIA_HOME": "data"}).home == Path.cwd() / "data"


def test_without_home_the_account_says_where_it_is() -> None:
    assert Environment.read({}).user_home == Path.home()


def test_the_variables_are_a_copy_that_nobody_can_change() -> None:
    variables = {"HOME": "/h", "KEY": "1"}
    environment = Environment.read(variables)
    variables["KEY"] = "2"
    assert environment.variables["KEY"] == "1"
    with pytest.raises(TypeError):
        environment.variables["KEY"] = "3"  # type: ignore[index]


def test_no_variable_is_ever_shown() -> None:
    """E6"""
    shown = repr(Environment.read({"HOME": "/h", "OPENAI_API_KEY": "canary"}))
    assert "canary" not in shown
    assert shown == "Environment(home='/h/.local/share/tertulia', 2 variables)"
