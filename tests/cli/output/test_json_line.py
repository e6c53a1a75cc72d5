"""One value, one line."""

from __future__ import annotations

import json

from tertulia.cli.output.json_line import escape_invisible, json_line


def test_whatever_a_text_holds_it_is_one_line_for_every_reader() -> None:
    """HARDENING E11: `splitlines` makes three of a record with U+2028 and U+0085."""
    text = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029é日\U0001f600"
    line = json_line({"text": text})
    assert line.endswith(b"}\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {"text": text}


def test_json_holds_the_exact_value_and_steers_no_terminal() -> None:
    """A6: what JSON itself leaves as it is, is escaped, also beyond the first plane."""
    text = "\x7f\x9b\u202e\u2066\u200d\ufeff\U000e0041 \u05e9\u65e5\U0001f600"
    line = json_line(text)
    assert json.loads(line) == text
    assert line.decode() == '"\\u007f\\u009b\\u202e\\u2066\\u200d\\ufeff\\udb40\\udc41 \u05e9\u65e5\U0001f600"\n'
    assert escape_invisible(b'{"plain": 1}') == b'{"plain": 1}'
