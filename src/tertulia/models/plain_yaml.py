"""YAML as plain data: no aliases, no tags, no key written twice.

Imported only where a YAML file is read. Without aliases a document can neither be larger than its
text nor contain itself, so a bound on the text bounds the result.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import yaml

from tertulia.errors import InvalidParamsError

MAX_NODES = 50_000


def load_plain(text: str) -> object:
    """Lists, mappings and scalars, None for an empty text; InvalidParams names the line of anything else."""
    try:
        # Inside the try: the reader looks at the first characters as soon as it is made.
        return _PlainLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise InvalidParamsError(f"{line}{_explain(error)}") from None
    except yaml.YAMLError:
        raise InvalidParamsError("it has a character that cannot stand in YAML") from None
    except RecursionError:
        raise InvalidParamsError("it is nested too deeply") from None
    except ValueError:
        # `2024-13-45` looks like a date.
        raise InvalidParamsError(
            "a value looks like a date or a number and is not valid as one; put it in quotes"
        ) from None


_PROBLEMS = {
    "mapping values": "a colon where there can be none; put a text with a colon in quotes",
    "could not find expected ':'": "a key without a colon",
    "found character '\\t'": "a tab; lines are indented with spaces",
    "found unexpected end": "a text without its closing quote",
    "expected <block end>": "the indentation does not fit the lines before",
    "expected ',' or": "a list or mapping without its closing bracket",
    "found unknown escape": "a backslash that begins no escape; put the text in single quotes",
    "found undefined tag": "tags (!name) are not accepted",
    "but found another": "a second document; a file has one",
    "found unhashable key": "a key that is a list or a mapping; a key is a text",
}
"""By the beginning of what PyYAML says."""


class _RefusedError(yaml.MarkedYAMLError):
    """What is YAML and not accepted here, in our words."""


def _explain(error: yaml.MarkedYAMLError) -> str:
    message = str(error.problem or error.context)
    if isinstance(error, _RefusedError):
        return message
    return next((ours for theirs, ours in _PROBLEMS.items() if message.startswith(theirs)), "it is not YAML")


class _PlainLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast("yaml.Event", self.peek_event())  # pyright: ignore[reportUnknownMemberType]
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(None, None, "aliases (*name) are not accepted, write it out", event.start_mark)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise _RefusedError(None, None, "tags (!name) are not accepted", event.start_mark)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _RefusedError(None, None, f"there are more than {MAX_NODES:,} values", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = str(key.value)
                if name in seen:
                    raise _RefusedError(None, None, f"{name[:40]!r} is written twice", key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep)
