"""What the page shows of texts that would hide or steer is what a terminal shows (A22, B10)."""

from __future__ import annotations

import json

from tertulia.policy.display_text import printable
from tests.web.node import WEB, run_node

TEXTS = [
    *("plain", "two\nlines\tand a tab", "a\u202eb", "\x1b[31mred", "x\u200by", "a\r\nb\rc", "\xad", "\u2028", "\x00"),
    *("👩\u200d👩\u200d👧 ok", "❤\ufe0f 1\ufe0f\u20e3", "नमस्\u200dते", "می\u200cخواهم", "\u0600x", "עברית", "日本語 é"),
    *("e" + "\u0301" * 12, "\U000e0041hidden", "\uffa0x", "\ufeff", "\u2066a\u2069", "a\u200d\u200db", "\ud800"),
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
]
PROGRAM = """import {{ printable }} from {module};
import {{ readFileSync }} from "node:fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf-8")).map(printable)));"""


def test_the_page_writes_out_the_characters_that_a_terminal_writes_out() -> None:
    program = PROGRAM.format(module=json.dumps((WEB / "parts" / "printable.js").as_uri()))
    shown = json.loads(run_node("--input-type=module", "--eval", program, stdin=TEXTS))
    assert shown == [printable(text) for text in TEXTS]
