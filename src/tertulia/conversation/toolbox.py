"""Which tools a conversation is offered now. Conversations with the same preferences share one list.

It depends only on the terms and the rights, not on a session or a turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from tertulia.conversation.terms import Terms, ToolForm, ToolsPrefs, tool_preferences
from tertulia.errors import TertuliaError
from tertulia.mcp.view import allows_name, withheld_error
from tertulia.policy.rights import Rights
from tertulia.prompt.tool_list import OfferedTools, assemble_tools
from tertulia.protocol.conversation_fields import ShellMode
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import BASH, CONV_MERGE, INTERRUPTING, TEXT_EDITOR, ToolSpec
from tertulia.schema.schema import Schema
from tertulia.tools.registry import ToolLookup, ToolRegistry
from tertulia.tools.tool import Tool

_KEPT_LISTS = 256

_ANY_SHELL = ("default", "with_request", "local", "streamable")
_SHELLS = {
    "shell": ("default", "with_request"),
    "local_shell": ("local",),
    "exec_command": ("streamable",),
    "write_stdin": ("streamable",),
    BASH: ("default", "with_request"),
    # A conversation that may not look around with commands may not look at files either.
    **dict.fromkeys(("view", "grep", "glob", "view_image", "read_file", TEXT_EDITOR), _ANY_SHELL),
}
"""The modes of shell in which a tool is offered."""

_FILE_FORMS: Mapping[str, ToolForm] = {
    "apply_patch": "patch",
    # It shows what an editor holds, and so does `view`.
    "read_file": "patch",
    **dict.fromkeys(("view", "edit", "write"), "editor"),
    TEXT_EDITOR: "provider",
}
"""The one form of the tools for files to which a tool belongs."""

_Key = tuple[ToolsPrefs, int, frozenset[str] | None, int, int, int, bool, bool]


class _BuiltList(msgspec.Struct, frozen=True):
    offered: OfferedTools
    held: tuple[object, ...]
    """Kept alive so that their `id`s, which are part of the key, are not reused as long as the list is kept."""


class Toolbox:
    """The session's tools, and the lists made of them. A list is made once for each set of preferences."""

    def __init__(
        self,
        registry: ToolRegistry,
        forms: Mapping[tuple[ShellMode, ToolForm], ToolSpec] | None = None,
        remote: Callable[[ToolSpec, ConversationId], Tool] | None = None,
        absence: Callable[[str, ConversationId], TertuliaError | None] | None = None,
        *,
        dedupe: bool = False,
    ) -> None:
        """`forms`: what the shell is called and takes in some modes and forms, where that is not what is registered.

        `remote`: makes the tool behind a definition of an MCP server, or of a context provider, for a conversation. It
        is made at the call: conversations see different definitions under one name.

        `absence`: why a conversation does not have a tool that an MCP server would offer; None: not known.
        `dedupe`: see `assemble_tools`.
        """
        self.registry = registry
        self._remote = remote
        self._absence = absence
        self._dedupe = dedupe
        self._forms = {(*form, spec.name): spec for form, spec in (forms or {}).items()}
        self._lists: OrderedDict[_Key, _BuiltList] = OrderedDict()

    def offered(self, terms: Terms, rights: Rights, *, delegating: bool = True, merging: bool = False) -> OfferedTools:
        """The tools that the terms ask for and the rights (of the whole chain) leave.

        Not delegating: without those that would have to be refused where no further conversation may wait. Merging:
        with the one for conversations that have opened another with a worktree.
        """
        wanted = tool_preferences(rights, terms.wire, terms.shell_mode, terms.tool_profile)
        view = terms.context.mcp_view
        injected = () if terms.agent is None else terms.agent.tools
        allowlist, ids = rights.mcp_tool_allowlist, (id(view.tools), id(injected), id(terms.functions))
        key = (wanted, self.registry.revision, allowlist, *ids, delegating, merging)
        made = self._lists.get(key)
        if made is None:
            own = [spec for spec in self._own(wanted, delegating) if merging or spec.name != CONV_MERGE]
            own += injected
            offered = self._assemble(own, terms.functions, view.with_allowlist(allowlist).list_tools())
            made = self._lists[key] = _BuiltList(offered, (view.tools, injected, terms.functions))
            if len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
        self._lists.move_to_end(key)
        return made.offered

    def reach(self, offered: OfferedTools, conversation: ConversationId, terms: Terms) -> ToolLookup:
        """Where the calls of a request find their tools: the session's, the conversation's, and those of servers.

        `terms`: of the conversation, whose view knows why a tool is not offered any more.
        """
        remote, absence = self._remote, self._absence
        return _OfferedReach(
            self.registry,
            offered,
            None if remote is None else lambda spec: remote(spec, conversation),
            terms,
            None if absence is None else lambda name: absence(name, conversation),
        )

    def _assemble(self, own: list[ToolSpec], functions: tuple[Tool, ...], remote: Iterable[ToolSpec]) -> OfferedTools:
        """The list. Of two tools with one name neither is chosen silently, even if a model sees no difference."""
        injected = {spec.name for spec in own if spec.source == "injector"}
        clashing = {
            tool.spec.name
            for tool in functions
            if tool.spec.name in injected or self.registry.get(tool.spec.name) not in (None, tool)
        }
        usable = [tool.spec for tool in functions if tool.spec.name not in clashing]
        own = [spec for spec in own if spec.name not in clashing or spec.source in ("builtin", "conv")]
        offered = assemble_tools([*own, *usable, *remote], dedupe=self._dedupe)
        clashes = (
            f"tool {name!r} is claimed by a function of the conversation and by another tool of the session"
            for name in clashing
        )
        return replace(offered, conflicts=(*offered.conflicts, *sorted(clashes))) if clashing else offered

    def knows(self, name: str) -> bool:
        """Whether there is a tool of that name: one of the session's own, or one that was offered lately."""
        return name in self.registry or any(name in made.offered.names for made in self._lists.values())

    def _own(self, wanted: ToolsPrefs, delegating: bool) -> list[ToolSpec]:
        return [
            self._forms.get((wanted.shell_mode, wanted.shell_form, spec.name), spec)
            for spec in self.registry.specs()
            if _is_enabled(spec, wanted) and (delegating or spec.name not in INTERRUPTING)
        ]


class _OfferedReach:
    """Implements `ToolLookup` for the tools of one request."""

    __slots__ = ("_absence", "_offered", "_registry", "_remote", "_terms")

    def __init__(
        self,
        registry: ToolRegistry,
        offered: OfferedTools,
        remote: Callable[[ToolSpec], Tool] | None,
        terms: Terms,
        absence: Callable[[str], TertuliaError | None] | None,
    ) -> None:
        self._absence = absence
        self._registry = registry
        self._offered = offered
        self._remote = remote
        self._terms = terms

    def get(self, name: str) -> Tool | None:
        # No name of a server takes precedence over a built-in tool.
        tool = self._registry.get(name)
        if tool is not None or name not in self._offered.names:
            return tool
        spec = next(spec for spec in self._offered.specs if spec.name == name)
        if spec.source in ("mcp", "injector"):
            return None if self._remote is None else self._remote(spec)
        return next((tool for tool in self._terms.functions if tool.spec == spec), None)

    def schema(self, spec: ToolSpec) -> Schema:
        # A tool that has several forms takes what the offered one says.
        form = next((offered for offered in self._offered.specs if offered.name == spec.name), spec)
        return self._registry.schema(form if form.source == spec.source else spec)

    def absence(self, name: str) -> TertuliaError:
        view, rights = self._terms.context.mcp_view, self._terms.rights
        if view.withholds(name):
            return withheld_error(name)
        why = None
        # A conversation learns nothing about a server that it may not use.
        if self._absence is not None and all(
            allows_name(names, name) for names in (view.allowlist, rights.mcp_tool_allowlist)
        ):
            why = self._absence(name)
        return why or self._registry.absence(name)


def _is_enabled(spec: ToolSpec, wanted: ToolsPrefs) -> bool:
    if spec.source not in ("builtin", "conv"):
        return True
    name, mode, form = spec.name, wanted.shell_mode, wanted.shell_form
    if mode not in _SHELLS.get(name, (mode,)) or _FILE_FORMS.get(name, wanted.file_form) != wanted.file_form:
        return False
    if name == "shell" and form == "provider":
        # The provider's own cannot ask to leave the sandbox.
        return mode == "with_request"
    return wanted.has_tool(name) and (name != BASH or form == "provider")
