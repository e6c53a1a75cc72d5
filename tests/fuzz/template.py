"""Templates of prompts (C19)."""

from __future__ import annotations

from contextlib import suppress

from tertulia.context.templates import load_template, render_template
from tertulia.errors import InvalidParamsError, NotFoundError

SEEDS = [
    b"core-identity\0You are {{name}} in {{ place }}.\0{{name}}",
    b"core-identity.md\0{{{{name}}}} {{name.__class__}} {{}} }}{{\0x",
    b"../../etc/passwd\0{{name}\0",
]
WORDS = [b"{{", b"}}", b"{{name}}", b"{{ name }}", b"__class__", b"core-identity", b".md", b"\0", b"{%", b"../"]


def fuzz(data: bytes) -> None:
    """Nothing is evaluated: the text between gaps stays, and a gap becomes the very value or nothing."""
    name, _, rest = data.decode("utf-8", "replace").partition("\0")
    text, _, value = rest.partition("\0")
    with suppress(InvalidParamsError, NotFoundError):
        load_template(name)
    made = render_template(text, {"name": value})
    assert len(made) <= len(text) + text.count("{{") * len(value)
    if "{{" not in text:
        assert made == text
    assert render_template(text, {"name": ""}) == render_template(text, {})
