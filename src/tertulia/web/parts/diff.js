// Patches as files and lines. Reads unified diffs and the patches of `apply_patch`, which name no line numbers.

import { html, useState } from "./html.js";

/** @typedef {{sign: string, text: string, number: number | null}} DiffLine */
/** @typedef {{path: string, kind: string, lines: DiffLine[]}} DiffFile */

const ENVELOPE = /^\*\*\* (Add|Update|Delete) File: (.+)$/;
const MOVE = /^\*\*\* Move to: (.+)$/;
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
/** @type {Record<string, string>} */
export const KIND_WORDS = { add: "new", delete: "deleted", move: "moved" };
/** Lines that are drawn at once; a button shows the rest. */
const FIRST_LINES = 400;
const PART_LINES = 200;

/** The files of a patch; none where the text is no patch. @param {string} text @returns {DiffFile[]} */
export function filesOf(text) {
  return /^\*\*\* (Begin Patch|(Add|Update|Delete) File: )/m.test(text) ? envelopeFiles(text) : unifiedFiles(text);
}

/** @param {string} text */
function envelopeFiles(text) {
  /** @type {DiffFile[]} */
  const files = [];
  for (const line of text.replace(/\n+$/, "").split("\n")) {
    const found = ENVELOPE.exec(line);
    const last = files.at(-1);
    if (found) files.push({ path: found[2] ?? "", kind: (found[1] ?? "").toLowerCase(), lines: [] });
    else if (last && MOVE.test(line)) last.path += ` → ${MOVE.exec(line)?.[1]}`;
    else if (last && !/^\*\*\* (Begin|End) Patch|^\*\*\* End of File/.test(line)) last.lines.push(diffLine(line));
  }
  return files;
}

/** @param {string} line @returns {DiffLine} */
function diffLine(line) {
  if (line.startsWith("@@")) return { sign: "@", text: line.slice(2).trim(), number: null };
  const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
  return { sign, text: line.slice(1), number: null };
}

/** @param {string} text */
function unifiedFiles(text) {
  /** @type {DiffFile[]} */
  const files = [];
  let [before, after, old] = [0, 0, ""];
  for (const line of text.split("\n")) {
    const last = files.at(-1);
    const hunk = HUNK.exec(line);
    if (line.startsWith("--- ")) old = path(line);
    else if (line.startsWith("+++ ")) {
      const name = path(line);
      const kind = old === "/dev/null" ? "add" : name === "/dev/null" ? "delete" : "update";
      files.push({ path: kind === "delete" ? old : name, kind, lines: [] });
    } else if (hunk && last) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      last.lines.push({ sign: "@", text: hunk[3] ?? "", number: null });
    } else if (last && /^[ +-]/.test(line)) {
      const sign = line[0] ?? " ";
      last.lines.push({ sign, text: line.slice(1), number: sign === "-" ? before : after });
      if (sign !== "+") before += 1;
      if (sign !== "-") after += 1;
    }
  }
  return files;
}

/** @param {string} line */
const path = (line) => line.slice(4).split("\t")[0]?.replace(/^[ab]\//, "") ?? "";

/** How many lines have this sign. @param {DiffFile} file @param {string} sign */
const count = (file, sign) => file.lines.filter((line) => line.sign === sign).length;

/** @param {{path: string, kind: string, added: number | null, removed: number | null}} props */
export function FileCounts({ path: name, kind, added, removed }) {
  return html`<span class="file"><span class="path">${name}</span>
    ${added ? html`<span class="plus">+${added}</span>` : null}${removed ? html`<span class="minus">−${removed}</span>` : null}
    ${KIND_WORDS[kind] ? html`<span class="dim">${KIND_WORDS[kind]}</span>` : null}</span>`;
}

/** One file: its name with counts, and its lines below. @param {{file: DiffFile, open: boolean}} props */
export function FileDiff({ file, open }) {
  return html`<details class="diff" open=${open}>
    <summary><${FileCounts} path=${file.path} kind=${file.kind} added=${count(file, "+")} removed=${count(file, "-")} /></summary>
    ${file.lines.length > 0 && html`<${DiffLines} lines=${file.lines} />`}
  </details>`;
}

/** @type {Record<string, string>} */
const LINE_CLASSES = { "+": "added", "-": "removed", "@": "place" };

/** @param {{lines: DiffLine[], whole?: boolean}} props `whole`: all at once, for what a person decides about */
export function DiffLines({ lines, whole = false }) {
  const [opened, setAll] = useState(false);
  const all = whole || opened || lines.length <= FIRST_LINES;
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  const numbered = lines.some((line) => line.number !== null);
  return html`<div class="diff-lines" tabindex="0" role="group" aria-label="Changed lines">
    ${parted(shown).map((part, at) => html`<div class="lines-part" key=${at}>${part.map((line, index) => html`<${Line} key=${index} line=${line} numbered=${numbered} />`)}</div>`)}
    ${!all && html`<button type="button" class="quiet" onClick=${() => setAll(true)}>${lines.length - FIRST_LINES} more lines</button>`}
  </div>`;
}

/** Lines in parts, of which only those in sight are laid out. @param {DiffLine[]} lines */
const parted = (lines) => Array.from({ length: Math.ceil(lines.length / PART_LINES) }, (_, index) => lines.slice(index * PART_LINES, (index + 1) * PART_LINES));

/** @param {{line: DiffLine, numbered: boolean}} props */
function Line({ line, numbered }) {
  if (line.sign === "@") return html`<div class="line place">${line.text || "⋯"}</div>`;
  return html`<div class=${`line ${LINE_CLASSES[line.sign] ?? ""}`}>
    ${numbered && html`<span class="number">${line.number}</span>`}<span class="sign">${line.sign}</span><span class="text">${line.text || " "}</span>
  </div>`;
}
