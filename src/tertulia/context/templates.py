"""The templates shipped beside this file, and how their `{{variables}}` are replaced.

Deliberately not a template language: a variable is a name, and nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.name_hints import name_hint

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_GAP = re.compile(r"\{\{([^{}]*+)\}\}")


def load_template(name: str) -> str:
    """The text of a template that is shipped with the package.

    Args:
        name: Such as `core-identity` or `core-identity.md`.

    Returns:
        The template, with its `{{variables}}`.

    Raises:
        InvalidParamsError: The name has characters that no template's name has.
        NotFoundError: There is no template of that name.
    """
    stem = str(name).removesuffix(".md")
    if not _NAME.match(stem):
        raise InvalidParamsError(f"{name!r:.80} is not the name of a template: letters, digits, dashes and underscores")
    return _read(stem)


@cache
def _read(stem: str) -> str:
    try:
        return Path(__file__).with_name(f"{stem}.md").read_text("utf-8")
    except FileNotFoundError:
        templates = sorted(path.stem for path in Path(__file__).parent.glob("*.md"))
        raise NotFoundError(f"there is no template {stem!r:.80}; {name_hint(stem, templates)}") from None


def render_template(template: str, variables: Mapping[str, str]) -> str:
    """Replace each `{{name}}` by the value of that variable, or by nothing if there is no such variable.

    In one pass and linear time: braces within values are not expanded.

    Args:
        template: A text with variables.
        variables: A text for each name.

    Returns:
        The text without variables.

    Raises:
        InvalidParamsError: The value of a variable in the template is not a text.
    """

    def value(gap: re.Match[str]) -> str:
        name = gap[1].strip()
        text = cast(object, variables.get(name, ""))
        if not isinstance(text, str):
            raise InvalidParamsError(f"the variable {name!r:.80} must be a text, not {type(text).__name__}")
        return text

    return _GAP.sub(value, template)
