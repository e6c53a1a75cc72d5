"""YAML as plain data: no aliases, no tags, no key written twice.

Imported only by those who have a YAML file to read. Without aliases a document can neither be larger than its
text nor contain itself, so a bound on the text bounds the result.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from tertulia.errors import InvalidParamsError

MAX_NODES = 50_000


def load_plain(text: str) -> object:
    """Lists, mappings and scalars, None for an empty text; InvalidParams names the line of anything else."""
    try:
        # Inside the try: the reader looks at the first characters as soon as it is made.
        return _PlainLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise InvalidParamsError(f"{line}{error.problem}") from None
    except yaml.YAMLError as error:
        raise InvalidParamsError(str(error).partition("\n")[0]) from None
    except RecursionError:
        raise InvalidParamsError("it is nested too deeply") from None
    except ValueError as error:
        # `2024-13-45` looks like a date, and PyYAML lets Python's own complaint about it through.
        complaint = f"a value looks like a date or a number and is none ({error}); put it in quotes"
        raise InvalidParamsError(complaint) from None


class _PlainLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast("yaml.Event", self.peek_event())  # pyright: ignore[reportUnknownMemberType]
        if isinstance(event, yaml.AliasEvent):
            raise ComposerError(None, None, "aliases (*name) are not accepted, write it out", event.start_mark)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise ComposerError(None, None, "tags (!name) are not accepted", event.start_mark)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ComposerError(None, None, f"there are more than {MAX_NODES:,} values", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = str(key.value)
                if name in seen:
                    raise ConstructorError(None, None, f"{name[:40]!r} is written twice", key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep)
