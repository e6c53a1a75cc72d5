"""One value, one line."""

from __future__ import annotations

import json

from tertulia.apps.json_lines import json_line


def test_whatever_a_text_holds_it_is_one_line_for_every_reader() -> None:
    """HARDENING E11: `splitlines` makes three of a record with U+2028 and U+0085."""
    text = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029é日\U0001f600"
    line = json_line({"text": text})
    assert line.endswith(b"}\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {"text": text}
