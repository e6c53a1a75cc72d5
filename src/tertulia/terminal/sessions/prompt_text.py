"""One request to a model as a page: parts, sizes, digests, the verdict; and the difference between two requests."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tertulia.terminal.panels.page import PageContent, PageRow

if TYPE_CHECKING:
    from tertulia.session.resume.recorded_prompt import RecordedPrompt

PROMPT = "recorded prompt"
COMPARED = "compared prompts"
_DIGEST = 16
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
        *_section("instructions", prompt.instructions.splitlines()),
        *_section("tools", tools),
        *_section("items", (item.decode() for item in items)),
    ]
    return PageContent(kind=PROMPT, title=f"request {prompt.verdict.n:,}: what the model saw", rows=_bounded(rows))


def compared_page(before: RecordedPrompt, now: RecordedPrompt) -> PageContent:
    """What differs between two requests, as a unified diff."""
    names = f"request {before.verdict.n:,}", f"request {now.verdict.n:,}"
    differences = difflib.unified_diff(_text(before), _text(now), *names, n=1, lineterm="")
    rows = [PageRow(row, style=_STYLES.get(row[:1], "")) for row in differences]
    none = [PageRow("nothing differs: the same request was sent again")]
    return PageContent(kind=COMPARED, title=f"{names[0]} and {names[1]} compared", rows=_bounded(rows or none))


def _part(name: str, size: str, digest: str) -> PageRow:
    return PageRow(name, f"{size}, sha256 {digest[:_DIGEST]}…")


def _section(name: str, texts: Iterable[str]) -> list[PageRow]:
    return [PageRow(name, style="bold"), *(PageRow(f"  {text}") for text in texts)]


def _text(prompt: RecordedPrompt) -> list[str]:
    items = [_encoded(item).decode() for item in prompt.items]
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
