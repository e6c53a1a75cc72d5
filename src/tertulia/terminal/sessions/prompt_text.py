"""One request to a model as a page: parts, sizes, digests, the verdict; and the difference between two requests."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    ToolCall,
    ToolOutput,
    UserMessage,
)
from tertulia.terminal.panels.page import PageContent, PageRow

if TYPE_CHECKING:
    from tertulia.session.resume.recorded_prompt import RecordedPrompt

PROMPT = "recorded prompt"
COMPARED = "compared prompts"
_DIGEST = 16
_COLUMN = 13
"""Where the sizes and digests of parts begin."""
_MAX_ROWS = 20_000
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_VERDICT_STYLES = {"same": "green", "different": "red", "unknown": "yellow"}


def prompt_page(prompt: RecordedPrompt) -> PageContent:
    """All of one request, with long texts in full."""
    request = prompt.request
    tools, items = _tool_names(prompt), [_encoded(item) for item in prompt.items]
    rows = [
        PageRow(prompt.sentence, style=_VERDICT_STYLES[prompt.verdict.outcome]),
        _part("instructions", f"{len(prompt.instructions.encode()):,} bytes", request.instructions),
        _part("tools", f"{len(tools):,}, {len(request.tools_json):,} bytes", request.tools),
        _part("items", f"{request.items:,}, {sum(map(len, items)):,} bytes", request.history),
        _part("prompt", "all of it", request.prompt),
        PageRow(""),
        PageRow("instructions", style="bold"),
        *(_exact(text) for text in prompt.instructions.splitlines()),
        PageRow("tools", style="bold"),
        PageRow(f"  {', '.join(tools)}"),
        *(row for item in prompt.items for row in _item_rows(item)),
    ]
    title = f"request {prompt.verdict.n:,}: what the model saw"
    return PageContent(kind=PROMPT, title=title, rows=_bounded(rows), column=_COLUMN)


def compared_page(before: RecordedPrompt, now: RecordedPrompt) -> PageContent:
    """What differs between two requests, as a unified diff."""
    names = f"request {before.verdict.n:,}", f"request {now.verdict.n:,}"
    differences = difflib.unified_diff(_text(before), _text(now), *names, n=1, lineterm="")
    rows = [PageRow(row, style=_STYLES.get(row[:1], ""), exact=True) for row in differences]
    same = before.request.prompt == now.request.prompt
    sentence = "the same request was sent again" if same else "the texts are the same, and the bytes sent are not"
    none = [PageRow(f"nothing differs: {sentence}")]
    return PageContent(kind=COMPARED, title=f"{names[0]} and {names[1]} compared", rows=_bounded(rows or none))


def _part(name: str, size: str, digest: str) -> PageRow:
    return PageRow(name, f"{size}, sha256 {digest[:_DIGEST]}…")


def _exact(text: str) -> PageRow:
    return PageRow(f"  {text}", exact=True)


def _item_rows(item: Item) -> list[PageRow]:
    """An item for people: from which side it came, and its text as it was sent."""
    return [PageRow(_item_name(item), style="bold"), *(_exact(text) for text in _item_text(item).splitlines())]


def _item_name(item: Item) -> str:
    match item:
        case UserMessage(sender=sender):
            return "user" if sender is None else f"user {sender}"
        case ToolCall(name=name, call_id=id):
            return f"call of {name} ({id})"
        case ToolOutput(call_id=id, success=success):
            return f"output of {id}" if success else f"error of {id}"
        case Summary(replaced=count):
            return f"summary of {count:,} items"
        case AssistantMessage():
            return "assistant"
        case Reasoning():
            return "reasoning"


def _item_text(item: Item) -> str:
    if isinstance(item, ToolCall):
        return item.arguments
    pictures = sum(isinstance(part, ImagePart) for part in getattr(item, "parts", ()))
    return item.text + "\n[picture]" * pictures


def _text(prompt: RecordedPrompt) -> list[str]:
    items = [row.text for item in prompt.items for row in _item_rows(item)]
    return [*prompt.instructions.splitlines(), *(f"tool {name}" for name in _tool_names(prompt)), *items]


def _tool_names(prompt: RecordedPrompt) -> list[str]:
    return [_tool_name(tool) for tool in prompt.tools]


def _tool_name(tool: Any) -> str:
    """The name of a tool, whichever dialect the list was sent in."""
    fields = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
    inner = fields.get("function")
    named = cast("dict[str, Any]", inner) if isinstance(inner, dict) else fields
    return str(named.get("name") or named.get("type") or "?")


def _encoded(item: Any) -> bytes:
    return msgspec.json.encode(item)


def _bounded(rows: list[PageRow]) -> tuple[PageRow, ...]:
    left = len(rows) - _MAX_ROWS
    return (
        (*rows[:_MAX_ROWS], PageRow(f"{left:,} more lines; `tertulia sessions export` has them"))
        if left > 0
        else (*rows,)
    )
