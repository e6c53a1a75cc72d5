// Cells of calls: tools, commands, patches, and questions to other conversations.

import { callOutput, deciderText, duration, fieldOf, headline } from "../board/text.js";
import { textOf } from "../board/cells.js";
import { classes, html } from "../parts/html.js";
import { FoldedOutput } from "../parts/code_block.js";
import { lazy } from "../parts/lazy.js";
import { GrowingMarkdown } from "../parts/markdown.js";
import { useNow } from "../parts/now.js";
import { app } from "../app_state.js";

/** @typedef {import("../board/text.js").NameOf} NameOf */
/** @typedef {import("../types.js").CallCell} CallCell */

const PatchBody = lazy(async () => (await import("./patch_body.js")).PatchBody);

/** @param {{cell: CallCell, name: NameOf, woven: boolean}} props `woven`: the cells of a conversation that is asked stand below */
export function Call({ cell, name, woven }) {
  return html`<div class=${classes("call", cell.kind)}>
    <div class="call-line">
      <${Mark} cell=${cell} />
      <span class="headline">${headline(cell, name)}</span>
      <${CallFacts} cell=${cell} />
    </div>
    ${!(woven && cell.kind === "handoff") && html`<${CallBody} cell=${cell} />`}
  </div>`;
}

/** @param {CallCell} cell @returns {[string, string, string]} */
function markOf(cell) {
  if (cell.kind === "command" && cell.exit_code !== null) return cell.exit_code === 0 ? ["✓", "ok", "done"] : ["✗", "bad", `ended with ${cell.exit_code}`];
  if (!cell.done) return cell.kind === "handoff" ? ["◐", "wait", "waits"] : ["●", "busy", "runs"];
  if (cell.lost) return ["■", "bad", "ended with its process"];
  return cell.success === false ? ["✗", "bad", "failed"] : ["✓", "ok", "done"];
}

/** @param {{cell: CallCell}} props */
function Mark({ cell }) {
  const [mark, look, word] = markOf(cell);
  return html`<span class=${`mark ${look}`} aria-hidden="true">${mark}</span><span class="unseen">${word}: </span>`;
}

/** @param {{cell: CallCell}} props */
function CallFacts({ cell }) {
  const running = !cell.done && !(cell.kind === "command" && cell.exit_code !== null);
  const now = useNow(running, app.replay?.at);
  const spent = cell.duration_ms !== null ? cell.duration_ms / 1000 : running ? Math.max(0, now - Date.parse(cell.ts)) / 1000 : null;
  const parts = [
    spent !== null && spent >= 0.05 && duration(spent),
    cell.kind === "command" && cell.exit_code ? `exit ${cell.exit_code}` : null,
    cell.kind === "command" && cell.sandbox === "danger-full-access" ? "outside the sandbox" : null,
    cell.allowed_by && cell.allowed_by.kind !== "policy" ? `allowed by ${deciderText(cell.allowed_by)}` : null,
    cell.truncated ? "output was cut" : null,
    cell.lost ? "ended with its process, before it was done" : null,
  ].filter(Boolean);
  return parts.length > 0 ? html`<span class="dim facts">${parts.join(" · ")}</span>` : null;
}

/** @param {{cell: CallCell}} props */
function CallBody({ cell }) {
  switch (cell.kind) {
    case "patch":
      return html`<${PatchBody} cell=${cell} />`;
    case "handoff":
      return html`<${HandoffBody} cell=${cell} />`;
    case "command":
      return html`<${FoldedOutput} text=${textOf(cell)} fromEnd=${cell.exit_code === null} />`;
    default:
      return html`<${Progress} cell=${cell} /><${Arguments} value=${cell.arguments} /><${FoldedOutput} text=${callOutput(cell)} />`;
  }
}

/** @param {{cell: import("../types.js").ToolCallCell}} props */
function Progress({ cell }) {
  if (cell.done || cell.progress === null) return null;
  const total = cell.total ?? undefined;
  return html`<div class="progress dim"><progress value=${total ? cell.progress : undefined} max=${total}></progress> ${cell.message}</div>`;
}

/** What a tool was given, where its headline does not say it all. @param {{value: any}} props */
function Arguments({ value }) {
  const isLong = value && typeof value === "object" && JSON.stringify(value).length > 60;
  if (!isLong) return null;
  return html`<details class="arguments"><summary class="dim">arguments</summary><pre tabindex="0" aria-label="Arguments">${JSON.stringify(value, null, 2)}</pre></details>`;
}

/** @param {{cell: import("../types.js").HandoffCell}} props */
function HandoffBody({ cell }) {
  const target = cell.target_id;
  const question = fieldOf(cell.arguments, "user_instruction") ?? fieldOf(cell.arguments, "text") ?? fieldOf(cell.arguments, "message") ?? "";
  const answer = cell.done ? callOutput(cell) : "";
  return html`${question && html`<div class="asked">${question}</div>`}
    ${answer && html`<div class="answer"><${GrowingMarkdown} text=${answer} done=${true} /></div>`}
    ${target && html`<button type="button" class="quiet" onClick=${() => app.go({ conversation: target, page: "transcript" })}>Open that conversation</button>`}`;
}
