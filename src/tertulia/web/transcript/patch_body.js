// The files of a patch below its call.

import { callOutput, fieldOf } from "../board/text.js";
import { FileCounts, FileDiff, filesOf } from "../parts/diff.js";
import { FoldedOutput } from "../parts/code_block.js";
import { html } from "../parts/html.js";

const OPEN_DIFF_LINES = 120;

/** The text of the patch of a call, wherever it stands. @param {import("../types.js").PatchCell} cell */
function patchText(cell) {
  if (cell.diff) return cell.diff;
  if (typeof cell.arguments === "string") return cell.arguments;
  return fieldOf(cell.arguments, "input") ?? fieldOf(cell.arguments, "patch") ?? Object.values(cell.arguments ?? {}).find((value) => typeof value === "string" && value.includes("*** ")) ?? "";
}

/** @param {{cell: import("../types.js").PatchCell}} props */
export function PatchBody({ cell }) {
  const files = filesOf(String(patchText(cell)));
  const output = cell.success === false ? callOutput(cell) : "";
  if (!files.length) {
    const counts = cell.changes.map((change) => html`<${FileCounts} path=${change.path} kind=${change.kind} added=${change.added ?? null} removed=${change.removed ?? null} />`);
    return html`<div class="files">${counts}</div><${FoldedOutput} text=${output} />`;
  }
  const lines = files.reduce((sum, file) => sum + file.lines.length, 0);
  return html`${files.map((file) => html`<${FileDiff} key=${file.path} file=${file} open=${lines <= OPEN_DIFF_LINES} />`)}<${FoldedOutput} text=${output} />`;
}
