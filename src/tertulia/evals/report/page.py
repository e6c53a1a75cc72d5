"""The frame of a report: one HTML file in the colours of the reader's system. The benchmarks use it too."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #667085; --line: #d9dee6; --paper: #fff; --own: #0b6e63;
        --bar: #e7ebf1; --good: #0b6e63; --bad: #b42318; --some: #a15c07; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --dim: #98a2b3; --line: #333b47; --paper: #14181f; --own: #3fc7b5; --bar: #262d38;
          --good: #3fc7b5; --bad: #f97066; --some: #fdb022; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.8rem; }
p, figcaption { color: var(--dim); } figure { margin: 1rem 0; overflow-x: auto; }
svg { width: 100%; min-width: 40rem; height: auto; } figcaption { font-size: .85rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .tick { fill: var(--dim); font-size: 11px; }
svg .own { font-weight: 600; } svg .dim { fill: var(--dim); }
svg .grid { stroke: var(--line); } svg .spread { stroke: var(--ink); stroke-width: 1.5; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top;
         white-space: nowrap; }
th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; }
small { color: var(--dim); display: block; font-weight: 400; }
tr.own td { color: var(--own); font-weight: 600; } tr.own td.note { color: var(--dim); font-weight: 400; }
td.note { color: var(--dim); white-space: normal; min-width: 8rem; max-width: 22rem; font-size: .85rem; }
td[colspan] { text-align: left; }
"""


def html_page(title: str, body: str, style: str = "") -> str:
    """The whole page. `body` and `style` are HTML and CSS already; the title is a text."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{_STYLE}{style}</style>'
    name = f"<title>{escape(title)}</title>"
    return f'<!doctype html><html lang="en"><head>{head}{name}</head><body>{body}</body></html>\n'


def svg_figure(size: tuple[float, float], caption: str, parts: Sequence[str]) -> str:
    """A picture of this width and height with its caption; `parts` are SVG already."""
    width, height = size
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(caption)}">'
    return f"<figure>{head}{''.join(parts)}</svg><figcaption>{escape(caption)}</figcaption></figure>"
