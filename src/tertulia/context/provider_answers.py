"""The answers of context providers for one agent: parsed, filtered, without duplicates, and cut to a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from msgspec.structs import replace

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import McpServer, ToolDefinition, may_use, to_mcp_server, to_tool_definition
from tertulia.context.provider import Fragment, FragmentCut
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.history.segment import BYTES_PER_TOKEN, estimate_tokens, utf8_size
from tertulia.protocol.inputs import check_text

DEFAULT_TOKENS = 32_000
"""A quarter of the usual context window."""
_LEAST = 64
"""In tokens; a text that would have to be cut shorter than this is left out."""
_NOTE = "\n[… the rest of this part was left out: it is too long]"


def count_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return estimate_tokens(utf8_size(text))


def fit_to_budget(fragments: Sequence[Fragment], max_tokens: int) -> tuple[list[Fragment], list[FragmentCut]]:
    """(fragments that stay, in the same order; cuts). The lowest priority is cut first, of equals the later one.

    A fragment loses only as much of its end as is needed, or is left out if too little would remain. A fragment that
    contains a token is never shortened, only left out.
    """
    fitting = dict(enumerate(fragments))
    cuts: list[FragmentCut] = []
    excess = sum(fragment.tokens for fragment in fragments) - max_tokens
    for place, fragment in sorted(fitting.items(), key=lambda entry: (entry[1].priority, -entry[0])):
        if excess <= 0:
            break
        shorter = _shorten(fragment, fragment.tokens - excess)
        if shorter is None:
            del fitting[place]
        else:
            fitting[place] = shorter
        left = 0 if shorter is None else shorter.tokens
        cuts.append(FragmentCut(fragment.provider, fragment.tokens, left))
        excess -= fragment.tokens - left
    return list(fitting.values()), cuts


def _shorten(fragment: Fragment, tokens: int) -> Fragment | None:
    if fragment.sensitive or tokens < _LEAST:
        return None
    room = tokens * BYTES_PER_TOKEN - utf8_size(_NOTE)
    # `room` characters have at least `room` bytes; cutting the text before it is encoded avoids encoding megabytes.
    text = fragment.text[:room].encode()[:room].decode(errors="ignore") + _NOTE
    return replace(fragment, text=text, tokens=count_tokens(text))


MAX_OFFERS = 256
"""The most servers, or tools, of one provider."""
PRIORITY = 50
"""The priority of a provider that has no `priority` attribute."""
BLOCK_PRIORITY = 1_000
"""The priority of the block about tools."""


class ProviderAnswers:
    """The answers so far. Each `take_` method accepts the valid entries of an answer and returns the errors."""

    def __init__(self, meta: AgentInstanceMeta) -> None:
        self.meta = meta
        self.servers: dict[str, McpServer] = {}
        self.tools: dict[str, ToolDefinition] = {}
        self.fragments: list[Fragment] = []
        self.warnings: list[str] = []

    def take_servers(self, answer: object) -> list[BaseException]:
        """Add MCP servers; of two with one name the first counts."""
        problems: list[BaseException] = []
        for entry in _check_list(answer):
            try:
                server = to_mcp_server(entry)
                self.servers.setdefault(server.name, server)
            except TertuliaError as error:
                problems.append(error)
        return problems

    def take_tools(self, answer: object) -> list[BaseException]:
        """Add the tools that the archetype may use; of two with one name the first counts."""
        problems: list[BaseException] = []
        for entry in _check_list(answer):
            try:
                tool = to_tool_definition(entry)
                if may_use(self.meta.archetype, tool.scope):
                    self.tools.setdefault(tool.name, tool)
            except TertuliaError as error:
                problems.append(error)
        return problems

    def take_text(self, answer: object, provider: str, priority: object) -> list[BaseException]:
        """Add a text, unless it is blank."""
        if answer is None:
            return []
        if not isinstance(answer, str):
            raise InvalidParamsError(f"the answer must be a text, not {type(answer).__name__}")
        if check_text(answer, "the answer").strip():
            # No provider has a higher priority than the block about tools.
            place = min(priority, BLOCK_PRIORITY - 1) if isinstance(priority, int) else PRIORITY
            self.fragments.append(Fragment(provider, answer, count_tokens(answer), place))
        return []


def _check_list(answer: object) -> Sequence[object]:
    if answer is None:
        return ()
    if not isinstance(answer, list | tuple):
        raise InvalidParamsError(f"the answer must be a list, not {type(answer).__name__}")
    offers = cast("Sequence[object]", answer)
    if len(offers) > MAX_OFFERS:
        raise InvalidParamsError(f"the answer has more than {MAX_OFFERS} entries")
    # The iterator of a subclass of `list` may be endless.
    return list(islice(offers, MAX_OFFERS))
