// Finds a text in the cells of a transcript.

import { textOf } from "../board/cells.js";
import { commandText } from "../board/text.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { app } from "../app_state.js";

/** The words of a cell that a person would look for. @param {any} cell @returns {string} */
function searchable(cell) {
  const own = [cell.text, cell.title, cell.request?.title, cell.request?.message, cell.name];
  if (cell.kind === "command") own.push(commandText(cell.command));
  if (cell.kind === "patch") own.push(...cell.changes.map((/** @type {any} */ change) => change.path));
  if (cell.pieces) own.push(textOf(cell));
  return own.filter(Boolean).join("\n");
}

/** The keys of the cells that hold a text, the newest first.
 * @param {Array<{cell: any}>} entries @param {string} text @returns {string[]} */
function findIn(entries, text) {
  const wanted = text.toLowerCase();
  return entries.filter(({ cell }) => searchable(cell).toLowerCase().includes(wanted)).map(({ cell }) => cell.key).reverse();
}

/** @param {{entries: Array<{cell: any}>, show: (key: string) => void}} props */
export function FindBar({ entries, show }) {
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => input.current?.focus(), []);
  const keys = text ? findIn(entries, text) : [];
  const step = (/** @type {number} */ by) => {
    const next = (place + by + keys.length) % Math.max(1, keys.length);
    setPlace(next);
    const key = keys[next];
    if (key) show(key);
  };
  const typed = (/** @type {any} */ event) => {
    setText(event.target.value);
    setPlace(0);
    const key = event.target.value && findIn(entries, event.target.value)[0];
    if (key) show(key);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") app.setFinding(false);
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  };
  return html`<div class="find" role="search">
    <input ref=${input} type="search" aria-label="Find in this transcript" placeholder="Find" value=${text} onInput=${typed} onKeyDown=${pressed} />
    <span class="dim" role="status">${text ? (keys.length ? `${place + 1} of ${keys.length}` : "not found") : ""}</span>
    <button type="button" onClick=${() => step(1)} disabled=${!keys.length}>Older</button>
    <button type="button" onClick=${() => step(-1)} disabled=${!keys.length}>Newer</button>
    <button type="button" class="quiet" onClick=${() => app.setFinding(false)}>Close</button>
  </div>`;
}
