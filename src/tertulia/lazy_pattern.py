"""Regular expressions that are compiled when they are first used.

Compiling those that a program never uses would take a fifth of the time in which the public names are loaded.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Stands for a compiled pattern; an attribute that was used once is as quick as the pattern's own."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # `re` keeps what it has compiled, so that a second attribute costs a look into its cache.
        value = self.__dict__[name] = getattr(re.compile(self._source, self._flags), name)
        return value


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern for `match`, `search`, `sub` and the like. What is wrong with it shows when it is first used.

    Args:
        source: What `re.compile` takes.
        flags: Flags of `re`.

    Returns:
        An object with the methods and attributes of a pattern. The functions of the module `re` do not take it.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
