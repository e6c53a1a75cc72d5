"""The key map and its overrides."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.terminal.commands.pages import KEYED
from tertulia.terminal.looks.keys import EVERYWHERE, bindings_of, parse_keys, show_keys


def test_a_key_is_changed_by_its_name() -> None:
    changed = parse_keys({"palette": "ctrl+p", "tree.interrupt": "z"}, KEYED)
    assert changed == {"app.palette": "ctrl+p", "tree.interrupt": "z"}


def test_an_unknown_name_of_a_key_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidParamsError, match=r"there is no key 'palete'; did you mean app\.palette"):
        parse_keys({"palete": "ctrl+p"}, KEYED)
    with pytest.raises(InvalidParamsError, match="palette has no key"):
        parse_keys({"palette": " "}, KEYED)


def test_keys_are_written_as_people_write_them() -> None:
    assert show_keys("ctrl+k") == "Ctrl+K"
    assert show_keys("j,down") == "j ↓"
    assert show_keys("f1") == "F1"


def test_every_key_says_what_it_does_and_has_a_name() -> None:
    assert all(row.text for row in EVERYWHERE)
    assert all(binding.id for _, binding in bindings_of(KEYED))
