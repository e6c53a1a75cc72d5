"""Markdown as rows: the blocks of a text, and each block drawn by itself.

The parser finds the blocks; the content of a paragraph is parsed when it is drawn, up to a limit. Link definitions
elsewhere in the text are not followed, so that a block looks the same whatever comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.style import Style

from tertulia.terminal.drawing.code_colours import coloured_lines
from tertulia.terminal.drawing.palette import Palette, Role
from tertulia.terminal.drawing.rows import TextRow, behind, blanks, code_rows, plain_rows, prose_rows
from tertulia.terminal.drawing.tables import TableCell, table_rows
from tertulia.terminal.drawing.wrapping import Run, bounded, without_tabs

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_MARKDOWN = 128 * 1024
"""Characters of a text that is still read as Markdown; a longer one is shown as it is."""
MAX_INLINE = 4 * 1024
"""Characters of one paragraph up to which emphasis and links are parsed."""
PROSE_WIDTH = 100
"""Cells of the longest row of text, however wide the screen: a longer one is hard to read."""

_MAX_NESTING = 16
"""Nesting of lists and quotes, each counted twice; the parser omits what is nested deeper than 20."""
_STYLED: dict[str, Role] = {"em_open": "emphasis", "strong_open": "strong", "s_open": "strike"}


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A block of a text: a paragraph, a list with all its items, a code block."""

    first_line: int
    tokens: Sequence[Token]
    source: str | None = None
    """For a block that is nested deeper than the parser follows: its text, shown as it is."""

    @property
    def is_fence(self) -> bool:
        """Whether it is a code block between marks, closed or not."""
        return self.tokens[0].type == "fence"


@cache
def _parser() -> MarkdownIt:
    # Imported here: the first frame is painted before any Markdown is drawn.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"])
    parser.disable(["reference", "html_block", "html_inline", "inline", "text_join"])
    return parser


def parse_blocks(text: str) -> list[MarkdownBlock]:
    """The blocks of a text, one below the other."""
    blocks: list[MarkdownBlock] = []
    for tokens in _groups(_parser().parse(text)):
        first, end = tokens[0].map or (0, 0)
        too_deep = any(token.level >= _MAX_NESTING for token in tokens)
        source = "\n".join(text.split("\n")[first:end]) if too_deep else None
        blocks.append(MarkdownBlock(first, tokens, source))
    return blocks


def _groups(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each block beside the others, with what is inside."""
    depth = start = 0
    for index, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start : index + 1]
            start = index + 1


def markdown_rows(text: str, width: int, palette: Palette) -> list[TextRow]:
    """A complete text as rows. The text must have been made safe to show before."""
    if len(text) > MAX_MARKDOWN:
        return plain_rows(text, min(width, PROSE_WIDTH), palette["text"])
    return blocks_rows(parse_blocks(text), width, palette)


def blocks_rows(blocks: Sequence[MarkdownBlock], width: int, palette: Palette) -> list[TextRow]:
    """Blocks one below the other, with a blank row between them."""
    rows: list[TextRow] = []
    for block in blocks:
        if block.source is not None:
            drawn = plain_rows(block.source, width, palette["text"])
        else:
            drawn = _block_rows(block.tokens, width, palette)
        rows += [TextRow([]), *drawn] if rows and drawn else drawn
    return rows


def _block_rows(tokens: Sequence[Token], width: int, palette: Palette) -> list[TextRow]:
    """One block as rows, by its kind."""
    token = tokens[0]
    width = max(1, width)
    match token.type:
        case "paragraph_open":
            return _text_rows(tokens[1].content, min(width, PROSE_WIDTH), palette, palette["text"])
        case "heading_open":
            return _text_rows(tokens[1].content, min(width, PROSE_WIDTH), palette, palette["heading"])
        case "fence" | "code_block":
            return fence_rows(token.content.removesuffix("\n"), language_of(token.info), width, palette)
        case "hr":
            return [TextRow([(palette.marks.rule * min(width, 24), palette["dim"])], copied="---")]
        case "blockquote_open":
            bar: list[Run] = [(f"{palette.marks.output} ", palette["dim"])]
            return behind(_inner_rows(tokens[1:-1], width - 2, palette) or [TextRow([])], bar)
        case "bullet_list_open" | "ordered_list_open":
            return _list_rows(tokens, width, palette)
        case "table_open":
            return _table(tokens, width, palette)
        case _:
            return _text_rows(token.content, width, palette, palette["text"])


def _inner_rows(tokens: Sequence[Token], width: int, palette: Palette) -> list[TextRow]:
    """The blocks inside another one; in a list without blank lines they have none between them either."""
    rows: list[TextRow] = []
    for block in _groups(tokens):
        if rows and not block[0].hidden and not _is_tight_list(block):
            rows.append(TextRow([]))
        rows += _block_rows(block, width, palette)
    return rows


def _is_tight_list(tokens: Sequence[Token]) -> bool:
    return tokens[0].type.endswith("_list_open") and any(
        token.hidden for token in tokens if token.level == 2 + tokens[0].level
    )


def language_of(info: str) -> str:
    """The language that the opening line of a code block names; nothing where it names none."""
    words = info.split()
    return words[0].strip("{}.") if words else ""


def fence_rows(code: str, language: str, width: int, palette: Palette) -> list[TextRow]:
    """A code block, with a bar at its side."""
    rows: list[TextRow] = []
    for line in coloured_lines(code, language, palette):
        rows += code_line_rows(line, width, palette, code)
    return rows


def code_line_rows(line: Sequence[Run], width: int, palette: Palette, code: str | None) -> list[TextRow]:
    """One line of a code block."""
    bar: list[Run] = [(f"{palette.marks.output} ", palette["dim"])]
    if len(line) == 1:
        line = [(without_tabs(bounded(line[0][0])), line[0][1])]
    else:
        line = [(text.replace("\t", "    "), style) for text, style in line]
    return behind(code_rows(line, max(1, width - 2), code), bar)


def _list_rows(tokens: Sequence[Token], width: int, palette: Palette) -> list[TextRow]:
    ordered = tokens[0].type == "ordered_list_open"
    items = list(_groups(tokens[1:-1]))
    tight = _is_tight_list(tokens)
    marks = [f"{item[0].info}{item[0].markup} " if ordered else f"{palette.marks.bullet} " for item in items]
    size = max((len(mark) for mark in marks), default=2)
    rows: list[TextRow] = []
    for mark, item in zip(marks, items, strict=True):
        if rows and not tight:
            rows.append(TextRow([]))
        content = _inner_rows(item[1:-1], width - size, palette) or [TextRow([])]
        first = content[0].indented([(mark.rjust(size), palette["bar"])])
        # The number or bullet of an item was written by the model, so it is copied too.
        first.gutter = 0 if ordered else first.gutter
        rows += [first, *behind(content[1:], blanks(size, palette))]
    return rows


def _table(tokens: Sequence[Token], width: int, palette: Palette) -> list[TextRow]:
    lines: list[list[TableCell]] = []
    aligns: list[str] = []
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            lines.append([])
        elif token.type in ("th_open", "td_open"):
            style = palette["strong"] if token.type == "th_open" else palette["text"]
            content = " ".join(tokens[index + 1].content.split())
            lines[-1].append(_inline_lines(content, palette, style)[0])
            if token.type == "th_open":
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
    return table_rows(lines, aligns, width, palette)


# ── inside a line ────────────────────────────────────────────────────────────────────────────────────────────


def _text_rows(content: str, width: int, palette: Palette, style: Style) -> list[TextRow]:
    rows: list[TextRow] = []
    for line in _inline_lines(content, palette, style):
        rows += prose_rows(line, width)
    return rows


def _inline_lines(content: str, palette: Palette, style: Style) -> list[list[Run]]:
    """The lines of a paragraph with its emphasis, code and links."""
    if len(content) > MAX_INLINE:
        return [[(without_tabs(bounded(line)), style)] for line in content.split("\n")]
    parser, children = _parser(), list[Any]()
    parser.inline.parse(content, parser, {}, children)
    lines: list[list[Run]] = [[]]
    styles = [style]
    addresses: list[tuple[str, int]] = []
    for token in children:
        kind: str = token.type
        if kind in ("softbreak", "hardbreak"):
            lines.append([])
        elif kind in _STYLED:
            styles.append(palette.mix(styles[-1], _STYLED[kind]))
        elif kind == "link_open":
            styles.append(palette.mix(styles[-1], "link"))
            addresses.append((str(token.attrs.get("href", "")), len(lines[-1])))
        elif kind == "link_close":
            styles.pop()
            address, start = addresses.pop()
            lines[-1] += _address(address, lines[-1][start:], palette)
        elif kind.endswith("_close"):
            styles.pop()
        else:
            lines[-1].append(_leaf(token, styles[-1], palette))
    return lines


def _address(address: str, shown: Sequence[Run], palette: Palette) -> list[Run]:
    """The address of a link, unless its text shows that already."""
    text = "".join(piece for piece, _ in shown)
    if not address or address in (text, f"mailto:{text}"):
        return []
    return [(f" ({address})", palette["dim"])]


def _leaf(token: Token, style: Style, palette: Palette) -> Run:
    match token.type:
        case "code_inline":
            return token.content, palette.mix(style, "code")
        case "image":
            return f"[picture: {token.content or 'without a name'}] ({token.attrs.get('src', '')})", palette["dim"]
        case _:
            return without_tabs(token.content), style
