"""What the providers have answered so far, for one agent: read, filtered, and without repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.budget import count_tokens
from tertulia.context.definitions import McpServer, ToolDefinition, may_use, to_mcp_server, to_tool_definition
from tertulia.context.provider import Fragment
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.protocol.inputs import check_text

MAX_OFFERS = 256
"""Servers, or tools, of one provider."""
PRIORITY = 50
"""Of a provider that names none."""
BLOCK_PRIORITY = 1_000
"""Of the text about tools."""


class ProviderAnswers:
    """What has been collected so far. Each `take_` returns what was wrong with an answer and keeps the rest of it."""

    def __init__(self, meta: AgentInstanceMeta) -> None:
        self.meta = meta
        self.servers: dict[str, McpServer] = {}
        self.tools: dict[str, ToolDefinition] = {}
        self.fragments: list[Fragment] = []
        self.warnings: list[str] = []

    def take_servers(self, answer: object) -> list[BaseException]:
        """First wins."""
        problems: list[BaseException] = []
        for given in _check_list(answer):
            try:
                server = to_mcp_server(given)
                self.servers.setdefault(server.name, server)
            except TertuliaError as error:
                problems.append(error)
        return problems

    def take_tools(self, answer: object) -> list[BaseException]:
        """First what the archetype may use, then first wins."""
        problems: list[BaseException] = []
        for given in _check_list(answer):
            try:
                tool = to_tool_definition(given)
                if may_use(self.meta.archetype, tool.scope):
                    self.tools.setdefault(tool.name, tool)
            except TertuliaError as error:
                problems.append(error)
        return problems

    def take_text(self, answer: object, provider: str, priority: object) -> list[BaseException]:
        """Everything but nothing."""
        if answer is None:
            return []
        if not isinstance(answer, str):
            raise InvalidParamsError(f"the answer must be a text, not {type(answer).__name__}")
        if check_text(answer, "the answer").strip():
            # Nobody stays longer than the block about tools.
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
    # Whoever made a list of his own may go on for ever.
    return list(islice(offers, MAX_OFFERS))
