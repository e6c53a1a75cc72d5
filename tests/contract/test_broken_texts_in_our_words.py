"""Files and lines that are no TOML, JSON or YAML: the refusal says so in our words, not in those of the parser."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tertulia.cli.mcp.config_edit import add_table
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.executors.acp import own_servers
from tertulia.mcp.config.project_server import read_dot_mcp
from tertulia.models.plain_yaml import load_plain
from tertulia.protocol.json_steps import read
from tertulia.server.jsonrpc import strict_json
from tertulia.session.settings.config_file import read_config

LIBRARY_WORDS = (
    *("Expect", "Extra data", "Invalid ", "Untermin", "Cannot ", "Unclosed", "Illegal", "Unescaped", "Duplicate"),
    *("while ", "found ", "did not find", "could not find", "<block", "delimiter", "codec", "Errno", "Error", "Mark"),
    *("namespace", "token", "scalar", "document after", "property name", "immutable", "(char ", "column 0"),
)
TOML = r"""a = "text" # why
list = [1, 2.5, true, 1979-05-27]
[table]
'quoted key' = { b = "x\n", c = 'y' }
[[many]]
long = '''three
lines'''
"""
JSON = r'{"a": ["text\n", 1, 2.5, true, null], "b": {"c": "\u00e9"}}'
YAML = """replies:
  - text: "one: two"
    match: {contains: 'x'}
  - [1, 2, three]
  # why
  - |
    lines
"""
MARKS = ("", '"', "[", "}", "=", ":", ",", "\t", "\n", "\\", "*", "!", "1", "\x01")

Reader = Callable[[str], object]


def broken(text: str) -> Iterator[str]:
    """The text with each of its characters left out, or with another one before it, and all its beginnings."""
    for at in range(len(text)):
        for mark in MARKS:
            yield text[:at] + mark + text[at + (mark == "") :]
    yield from (text[:at] for at in range(len(text)))


def refusals(text: str, read_text: Reader) -> set[str]:
    sentences: set[str] = set()
    for broken_text in broken(text):
        try:
            read_text(broken_text)
        except TertuliaError as error:
            sentences.add(error.message)
    return sentences


def from_file(name: str, read_file: Callable[[Path], object]) -> Callable[[Path], Reader]:
    def in_folder(folder: Path) -> Reader:
        def written(text: str) -> object:
            (folder / name).write_text(text)
            return read_file(folder / name)

        return written

    return in_folder


def in_steps(text: str) -> None:
    for _ in read(text.encode(), strict_json.decoder):
        pass


READERS: dict[str, tuple[str, Callable[[Path], Reader]]] = {
    "config.toml": (TOML, from_file("config.toml", read_config)),
    ".mcp.json": (JSON, from_file(".mcp.json", read_dot_mcp)),
    "a message": (JSON, lambda _: lambda text: strict_json.decode(text.encode())),
    "a long message": (JSON, lambda _: in_steps),
    "settings of an agent": (JSON, lambda _: lambda text: own_servers._parsed(text, "settings.json")),
    "a YAML script": (YAML, lambda _: load_plain),
}


@pytest.mark.parametrize("name", READERS)
def test_no_word_of_a_parser_is_shown(tmp_path: Path, name: str) -> None:
    """Issue 18 (6)."""
    text, reader = READERS[name]
    sentences = refusals(text, reader(tmp_path))
    assert len(sentences) > 5
    assert not {sentence for sentence in sentences if any(word in sentence for word in LIBRARY_WORDS)}
    assert not [sentence for sentence in sentences if "it cannot be read" in sentence], "and not why"


def test_an_edit_of_a_broken_file_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("a = yes\n")
    with pytest.raises(
        InvalidParamsError, match=r"config\.toml: not TOML at line 1, column 5: a value that there is not"
    ):
        add_table(tmp_path / "config.toml", "mcp_servers", "x", {"command": "y"})


def test_the_parsers_still_say_what_is_put_in_other_words() -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match=r"Invalid value \(at line 1, column 5\)"):
        tomllib.loads("a = yes")
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        json.loads("[")
