"""Which tools a conversation is offered, by the model that it has, in an order that never varies.

Built-ins in a fixed order, conversation tools, injector tools and functions as registered, MCP tools by name, and last
the conversation tool that may appear and disappear, so that everything before it in a prompt stays the same. One name
with two different signatures, or of two MCP servers, is a conflict: a built-in wins, otherwise the name is not offered.
Anything else would let one server answer calls that were meant for another; so a user must ask for it (`dedupe`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from tertulia.errors import ToolConflictError
from tertulia.models.wire import Dialect
from tertulia.protocol.conversation_fields import ToolProfile
from tertulia.protocol.tool_spec import BASH, CONV_MERGE, CONV_TOOLS, TEXT_EDITOR, ToolSource, ToolSpec

_BUILTIN_ORDER = (
    "shell", BASH, "local_shell", "exec_command", "write_stdin", "apply_patch", "view", "edit", TEXT_EDITOR, "write",
    "grep", "glob", "update_plan", "view_image", "read_file", "web_search",
    *CONV_TOOLS,
)  # fmt: skip
_BUILTIN_RANK = {name: rank for rank, name in enumerate(_BUILTIN_ORDER)}
_EDITOR_FAMILIES = (
    "claude", "codestral", "deepseek", "devstral", "gemini", "glm", "grok", "kimi", "llama", "magistral", "minimax",
    "ministral", "mistral", "mixtral", "qwen", "qwq",
)  # fmt: skip
"""The beginnings of names of models that edit better by exact replacement and with a command line.

All others have the profile `patch`: OpenAI's models, which know patches and commands as lists of words, and those that
are not known.
"""

_PROVIDER_TOOLS = ("claude-haiku-4", "claude-opus-4", "claude-sonnet-4")
"""The beginnings of names of models for which the Messages API defines a command line and a text editor itself."""

_LAST = 9
_SOURCE_RANK: dict[ToolSource, int] = {"builtin": 0, "conv": 1, "injector": 2, "function": 3, "mcp": 4}


@lru_cache(maxsize=1024)
def usual_profile(model: str, family: str) -> ToolProfile:
    """The profile of a model where none is asked for; `model` is `provider/model`.

    The name of a script says nothing: of a scripted model its family alone counts.
    """
    names = (family,) if model.startswith("scripted/") else (_plain_name(model), family)
    return "editor" if any(name.lower().startswith(_EDITOR_FAMILIES) for name in names) else "patch"


@lru_cache(maxsize=1024)
def has_provider_tools(model: str, dialect: str) -> bool:
    """Whether the API, in this dialect, defines tools of the profile `editor` itself for this model."""
    return dialect.startswith("messages/") and _plain_name(model).startswith(_PROVIDER_TOOLS)


def _plain_name(model: str) -> str:
    """Without the provider, and without the maker, which some providers put first."""
    return model.rsplit("/", 1)[-1].lower()


class OfferedTools(msgspec.Struct, frozen=True, dict=True):
    """The tools of a request, and a digest over their names and schemas."""

    specs: tuple[ToolSpec, ...]
    names: frozenset[str]
    digest: str
    conflicts: tuple[str, ...] = ()
    """One sentence for each name that two tools claimed; see `require`."""

    def encoded(self, dialect: Dialect) -> bytes:
        """The list as a JSON array; encoded once for each dialect, not once a request."""
        made: dict[str, bytes] = vars(self)
        encoded = made.get(dialect.name)
        if encoded is None:
            encoded = made[dialect.name] = dialect.encode_tools(self.specs)
        return encoded

    def encoded_digest(self, dialect: Dialect) -> str:
        """SHA-256 of `encoded`, in hex; computed once for each dialect."""
        made: dict[str, str] = vars(self)
        name = f"{dialect.name} digest"
        digest = made.get(name)
        if digest is None:
            digest = made[name] = hashlib.sha256(self.encoded(dialect)).hexdigest()
        return digest

    def require(self) -> OfferedTools:
        """Return itself, or raise ToolConflictError if there are conflicts."""
        if self.conflicts:
            raise ToolConflictError("; ".join(self.conflicts))
        return self


NO_TOOLS = OfferedTools((), frozenset(), hashlib.sha256(b"").hexdigest())


def assemble_tools(specs: Iterable[ToolSpec], *, dedupe: bool = False) -> OfferedTools:
    """Order, merge duplicates, detect conflicts. The same specs give the same list on every run.

    `dedupe`: of two MCP servers with one name and one signature, the first by name has it, and there is no conflict.
    """
    ordered = sorted(enumerate(specs), key=_sort_key)
    by_name: dict[str, ToolSpec] = {}
    conflicts: dict[str, str] = {}
    for _, spec in ordered:
        first = by_name.setdefault(spec.name, spec)
        is_same = first.signature == spec.signature and (
            first.server == spec.server or (dedupe and first.source == spec.source == "mcp")
        )
        if not is_same:
            claimants = f"{_claimant(first)} and {_claimant(spec)}"
            conflicts.setdefault(spec.name, f"tool {spec.name!r} is claimed by {claimants}")
    offered = tuple(s for s in by_name.values() if s.name not in conflicts or _SOURCE_RANK[s.source] <= 1)
    return OfferedTools(offered, frozenset(s.name for s in offered), _digest(offered), tuple(conflicts.values()))


def _sort_key(numbered: tuple[int, ToolSpec]) -> tuple[int, int, str, str, str]:
    position, spec = numbered
    rank = _SOURCE_RANK[spec.source]
    if rank <= 1:
        rank = _LAST if spec.name == CONV_MERGE else rank
        return (rank, _BUILTIN_RANK.get(spec.name, len(_BUILTIN_ORDER)), spec.name, "", "")
    if spec.source == "mcp":
        # Servers start in any order: their tools are sorted by name, never by arrival.
        return (rank, 0, spec.name, spec.server or "", spec.digest)
    return (rank, position, "", "", "")


def _claimant(spec: ToolSpec) -> str:
    match spec.source:
        case "mcp":
            return f"MCP server {spec.server!r}"
        case "builtin" | "conv":
            return "Tertulia itself"
        case "injector":
            return "a context provider"
        case "function":
            return "a Python function"


def _digest(specs: Sequence[ToolSpec]) -> str:
    return hashlib.sha256("\n".join(spec.digest for spec in specs).encode()).hexdigest()
