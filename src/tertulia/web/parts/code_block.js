// Text in a fixed width: code, output. It can be copied, and a long one is folded.

import { html, useState } from "./html.js";
import { moreLines } from "../board/text.js";
import { app } from "../app_state.js";

/** Copies a text. @param {{text: string, label?: string}} props */
export function CopyButton({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    app.attempt(async () => {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    });
  return html`<button type="button" class="quiet copy" onClick=${copy}>${copied ? "Copied" : label}</button>`;
}

/** @param {{text: string, language: string}} props */
export function CodeBlock({ text, language }) {
  return html`<div class="code">
    <div class="code-bar"><${CopyButton} text=${text} />${language && html`<span class="dim">${language}</span>`}</div>
    <pre tabindex="0" aria-label=${language ? `Code, ${language}` : "Code"}><code>${text}</code></pre>
  </div>`;
}

/**
 * Output of a call: its first lines, or its last ones while it runs, and a button for the rest.
 * @param {{text: string, lines?: number, fromEnd?: boolean, label?: string}} props
 */
export function FoldedOutput({ text, lines = 6, fromEnd = false, label = "Output" }) {
  const [open, setOpen] = useState(false);
  const shown = text.replace(/\n+$/, "");
  if (!shown) return null;
  const all = shown.split("\n");
  const hidden = all.length - lines;
  const folded = hidden > 1 && !open;
  const part = !folded ? shown : (fromEnd ? all.slice(-lines) : all.slice(0, lines)).join("\n");
  return html`<div class="output">
    <pre tabindex="0" aria-label=${label}>${part}</pre>
    ${hidden > 1 &&
    html`<div class="output-bar">
      <button type="button" class="quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Fold" : moreLines(hidden)}</button>
      <${CopyButton} text=${text} />
    </div>`}
  </div>`;
}
