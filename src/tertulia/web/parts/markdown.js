// Markdown as elements, never as markup: what a model writes can only become text in one of the elements below.
// A growing text is read block by block: what stands before its last blank line outside a fence is read once.

import { Lexer } from "../vendor/marked.js";
import { Component, html } from "./html.js";
import { CodeBlock } from "./code_block.js";

/** @typedef {import("../vendor/marked.js").Token} Token */

/** Longer texts are shown as they are: reading them would take too long. */
const MAX_READ = 200_000;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** @type {Record<string, string>} */
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };

/** @param {string} text */
const plain = (text) => text.replace(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (entity) => ENTITIES[entity] ?? entity);

/** The elements of a text. @param {string} text */
export function elementsOf(text) {
  if (text.length > MAX_READ) return html`<p class="plain">${text}</p>`;
  try {
    return blocks(new Lexer({ gfm: true }).lex(text));
  } catch {
    // Nested deeper than anything a person wrote: shown as it is.
    return html`<p class="plain">${text}</p>`;
  }
}

/** @param {Token[] | undefined} tokens */
const blocks = (tokens) => (tokens ?? []).map(block);

/** @param {Token} token @returns {any} */
function block(token) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return heading(token);
    case "code":
      return html`<${CodeBlock} text=${token.text} language=${token.lang ?? ""} />`;
    case "blockquote":
      return html`<blockquote>${blocks(token.tokens)}</blockquote>`;
    case "list":
      return list(token);
    case "table":
      return table(token);
    case "hr":
      return html`<hr />`;
    case "paragraph":
      return html`<p>${inlines(token.tokens)}</p>`;
    case "text":
      return token.tokens ? inlines(token.tokens) : plain(token.text);
    default:
      return html`<p class="plain">${token.raw}</p>`;
  }
}

/** The headings of an answer stand below those of the page. @param {Token} token */
function heading(token) {
  const content = inlines(token.tokens);
  if (token.depth === 1) return html`<h3>${content}</h3>`;
  return token.depth === 2 ? html`<h4>${content}</h4>` : html`<h5>${content}</h5>`;
}

/** @param {Token} token */
function list(token) {
  const items = token.items.map((/** @type {Token} */ item) => html`<li>${item.task ? (item.checked ? "☑ " : "☐ ") : null}${blocks(item.tokens)}</li>`);
  return token.ordered ? html`<ol start=${Number(token.start) || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
}

/** @param {Token} token */
function table(token) {
  /** @param {Token} cell @param {"th" | "td"} tag */
  const draw = (cell, tag) => (tag === "th" ? html`<th scope="col">${inlines(cell.tokens)}</th>` : html`<td>${inlines(cell.tokens)}</td>`);
  return html`<div class="wide" tabindex="0" role="group" aria-label="Table">
    <table>
      <thead><tr>${token.header.map((/** @type {Token} */ cell) => draw(cell, "th"))}</tr></thead>
      <tbody>${token.rows.map((/** @type {Token[]} */ row) => html`<tr>${row.map((cell) => draw(cell, "td"))}</tr>`)}</tbody>
    </table>
  </div>`;
}

/** @param {Token[] | undefined} tokens */
const inlines = (tokens) => (tokens ?? []).map(inline);

/** @param {Token} token @returns {any} */
function inline(token) {
  switch (token.type) {
    case "strong":
      return html`<strong>${inlines(token.tokens)}</strong>`;
    case "em":
      return html`<em>${inlines(token.tokens)}</em>`;
    case "del":
      return html`<del>${inlines(token.tokens)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token);
    case "image":
      // A picture from elsewhere would tell that place who reads: it is only named.
      return `[picture ${token.text}: ${token.href}]`;
    case "text":
    case "escape":
      return token.tokens ? inlines(token.tokens) : plain(token.text);
    default:
      return token.raw;
  }
}

/** @param {Token} token */
function link(token) {
  if (!SAFE_LINK.test(token.href)) return token.raw;
  return html`<a href=${token.href} title=${token.href} target="_blank" rel="noopener noreferrer">${inlines(token.tokens)}</a>`;
}

/** A stretch of Markdown that is drawn once. */
class Block extends Component {
  /** @param {{text: string}} next */
  shouldComponentUpdate(next) {
    return next.text !== this.props.text;
  }

  /** @param {{text: string}} props */
  render({ text }) {
    return elementsOf(text);
  }
}

/**
 * Where the settled part of a text ends that may still grow: behind its last blank line outside a fence.
 * @param {string} text
 * @param {number} from where an earlier settled part ended
 */
export function settledEnd(text, from) {
  let end = from;
  let fence = "";
  for (let at = from; at < text.length; ) {
    const stop = text.indexOf("\n", at);
    if (stop < 0) break;
    const line = text.slice(at, stop);
    const found = FENCE.exec(line)?.[1];
    if (found && !fence) fence = found;
    else if (fence && found && found[0] === fence[0] && found.length >= fence.length) fence = "";
    else if (!fence && !line.trim()) end = stop + 1;
    at = stop + 1;
  }
  return end;
}

/** The text of a cell. While it grows, settled stretches stay as they are; in the end it is read as a whole. */
export class GrowingMarkdown extends Component {
  /** @param {any} props */
  constructor(props) {
    super(props);
    /** @type {string[]} */
    this.settled = [];
    this.end = 0;
    this.start = "";
  }

  /** @param {{text: string, done: boolean}} props */
  render({ text, done }) {
    if (done) return html`<div class="markdown"><${Block} key="whole" text=${text} /></div>`;
    if (!text.startsWith(this.start)) {
      this.settled = [];
      this.end = 0;
    }
    const end = settledEnd(text, this.end);
    if (end > this.end) this.settled = [...this.settled, text.slice(this.end, end)];
    this.end = end;
    this.start = text.slice(0, Math.min(end, 200));
    return html`<div class="markdown">
      ${this.settled.map((part, index) => html`<${Block} key=${index} text=${part} />`)}
      <${Block} key="tail" text=${text.slice(end)} />
    </div>`;
  }
}
