"""How tools are called: what a model may see, what people may write, and how both meet.

Names on the wire match `^[a-zA-Z0-9_-]{1,64}$`. An MCP tool's fully qualified name is `server__tool`; the
mapping back to server and tool is by table, never by splitting, because both halves may contain `__`.
"""

from __future__ import annotations

import hashlib
import re

MAX_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_SERVER = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")

CONV_TOOLS = ("conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy")
"""The five conversation tools, in the order models see them."""

LOCAL_SHELL = "local_shell"
"""The one tool that a provider's API knows by its name although we run it."""

INTERRUPTING = CONV_TOOLS[:2]
"""Those that hand their call to another conversation."""

_ALIASES = {name.replace("_", ".", 1): name for name in CONV_TOOLS}


def is_legal(name: str) -> bool:
    """Whether a model may be shown this name."""
    return NAME.match(name) is not None


def is_legal_server(name: str) -> bool:
    """Whether an MCP server may be called so."""
    return _SERVER.match(name) is not None


def canonical_name(name: str) -> str:
    """The wire name for what a person or a model wrote: dotted conv names are aliases."""
    return _ALIASES.get(name, name)


def fqn(server: str, tool: str) -> str:
    """`server__tool`, made legal; over 64 characters it is cut and ends in a SHA-1 of the whole name.

    A name that had to be changed gets the suffix as well: two tools that differ only in an illegal
    character must not become one.
    """
    return _fit_name(f"{server}__{tool}")


def _fit_name(raw: str) -> str:
    legal = _ILLEGAL.sub("_", raw)
    if legal == raw and len(raw) <= MAX_NAME:
        return raw
    digest = hashlib.sha1(raw.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    if len(legal) + 1 + len(digest) <= MAX_NAME:
        return f"{legal}_{digest}"
    return legal[: MAX_NAME - len(digest)] + digest


def normalise_allowlist_entry(entry: str) -> tuple[str, bool]:
    """(`server__tool`, whether the deprecated `server/tool` spelling was used).

    A name that is too long for a model may be written in full; any other that is illegal is left as it is.
    """
    server, _, tool = entry.partition("/")
    old = bool(server and tool and "/" not in tool)
    name = f"{server}__{tool}" if old else entry
    return _fit_name(name) if _SERVER.match(name) else name, old
