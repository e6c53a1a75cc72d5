"""All that the model of a conversation would be sent now, part by part: where it comes from and what it costs.

Asks nobody and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from tertulia.context.budget import count_tokens
from tertulia.conversation.state import ConversationState
from tertulia.prompt.instructions import full_instructions
from tertulia.protocol.items import Item
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.parts import Parts

PartKind = Literal["instructions", "message", "tool"]

_TAG = re.compile(r"<([a-z_]+)>")
_ADDITIONS = "context_additions"


class PromptPart(msgspec.Struct, frozen=True):
    """One part."""

    kind: PartKind
    name: str
    source: str
    """Who it comes from: built-in, the user, a provider, a tool's origin."""
    tokens: int
    """About how many it takes."""
    text: str


def prompt_parts(parts: Parts, talk: ConversationState) -> list[PromptPart]:
    """Instructions, messages and tools, in the order of a request."""
    parts.views.look(talk)
    terms = talk.terms
    offered = parts.toolbox.offered(terms, terms.rights)
    override = terms.context.base_instructions
    text = full_instructions(override, has_apply_patch="apply_patch" in offered.names, family=terms.wire.family)
    first = PromptPart(
        "instructions", "instructions", "built-in" if override is None else "override", count_tokens(text), text
    )
    messages = (part for item in talk.history.snapshot() for part in _message(talk, item))
    return [first, *messages, *(_tool(talk, spec) for spec in offered.specs)]


def _message(talk: ConversationState, item: Item) -> Iterator[PromptPart]:
    text = getattr(item, "text", None) or msgspec.json.encode(item).decode()
    found = _TAG.match(text) if getattr(item, "injected", False) else None
    name = "message" if found is None else found[1]
    if name == _ADDITIONS and talk.terms.agent is not None:
        for each in talk.terms.agent.additions:
            yield PromptPart("message", name, each.provider, each.tokens, each.text)
        return
    source = {"user_instructions": "user", "message": "history"}.get(name, "session")
    yield PromptPart("message", name, source, count_tokens(text), text)


def _tool(talk: ConversationState, spec: ToolSpec) -> PromptPart:
    # What it costs depends on how this model's provider wants it; what it says does not.
    tokens = count_tokens(talk.terms.wire.dialect.encode_tools((spec,)).decode())
    source = spec.source if spec.server is None else f"{spec.source} {spec.server}"
    text = f"{spec.description}\n\n{msgspec.json.format(spec.schema, indent=2)}"
    return PromptPart("tool", spec.name, source, tokens, text)
