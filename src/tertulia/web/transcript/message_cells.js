// Cells of messages and sentences: what persons wrote, what the model answered, plans, notices, ends.

import { attachmentText, answerText, counted, endText, messageHeading } from "../board/text.js";
import { textOf } from "../board/cells.js";
import { classes, html, useState } from "../parts/html.js";
import { CopyButton } from "../parts/code_block.js";
import { lazy } from "../parts/lazy.js";
import { GrowingMarkdown } from "../parts/markdown.js";
import { app } from "../app_state.js";

/** @typedef {import("../board/text.js").NameOf} NameOf */

const FOLD_LINES = 24;
/** In the place of a text that a record has not. */
const notStored = () => html`<span class="dim">a text that is not stored</span>`;

const ForkHere = lazy(async () => (await import("./fork_here.js")).ForkHere);

/** Goes on in a copy of the conversation that ends with this cell's item. @param {{cell: import("../types.js").UserCell | import("../types.js").TextCell}} props */
function ForkButton({ cell }) {
  const [asked, setAsked] = useState(false);
  if (asked) return html`<${ForkHere} cell=${cell} leave=${() => setAsked(false)} />`;
  return html`<button type="button" class="quiet" title="Go on from here in a copy" onClick=${() => setAsked(true)}>Fork here</button>`;
}

/** What can be done with a message. @param {{text: string, cell: import("../types.js").UserCell | import("../types.js").TextCell, woven: boolean}} props */
function CellBar({ text, cell, woven }) {
  const forks = !woven && app.selected()?.state === "live";
  return html`<div class="cell-bar">${forks && html`<${ForkButton} cell=${cell} />`}<${CopyButton} text=${text} /></div>`;
}

/** @param {{cell: import("../types.js").UserCell, name: NameOf, woven: boolean}} props */
export function UserMessage({ cell, name, woven }) {
  const [open, setOpen] = useState(false);
  const heading = messageHeading(cell, name);
  const lines = cell.text.split("\n");
  const folded = lines.length > FOLD_LINES + 4 && !open;
  const text = folded ? lines.slice(0, FOLD_LINES).join("\n") : cell.text;
  return html`<div class=${classes("user", cell.how === "delegated" && "delegated")}>
    ${heading && html`<div class="heading">${heading}</div>`}
    <div class="said">${text || notStored()}</div>
    ${folded && html`<button type="button" class="quiet" onClick=${() => setOpen(true)}>${counted(lines.length - FOLD_LINES, "more line")}</button>`}
    ${cell.attachments.map((attachment) => html`<div class="dim">${attachmentText(attachment)}</div>`)}
    <${CellBar} text=${cell.text} cell=${cell} woven=${woven} />
  </div>`;
}

/** @param {{cell: import("../types.js").TextCell, woven: boolean}} props */
export function AssistantText({ cell, woven }) {
  const text = textOf(cell);
  return html`<div class="assistant">
    ${cell.done && !text ? notStored() : html`<${GrowingMarkdown} text=${text} done=${cell.done} />`}
    ${cell.missing > 0 && html`<p class="dim">${counted(cell.missing, "character")} did not come; the whole text follows.</p>`}
    ${cell.done && html`<${CellBar} text=${text} cell=${cell} woven=${woven} />`}
  </div>`;
}

/** @param {{cell: import("../types.js").TextCell}} props */
export function Reasoning({ cell }) {
  const text = textOf(cell);
  const last = text.trimEnd().split("\n").at(-1) ?? "";
  return html`<details class="reasoning">
    <summary><span class="dim">${cell.done ? "thought" : "thinks"}</span> <span class="dim preview">${last.slice(0, 160)}</span></summary>
    <${GrowingMarkdown} text=${text} done=${cell.done} />
  </details>`;
}

/** @type {Record<string, [string, string]>} */
const STEP_MARKS = { completed: ["✓", "done"], in_progress: ["●", "at work"], pending: ["○", "to do"] };

/** @param {{cell: import("../types.js").PlanCell}} props */
export function Plan({ cell }) {
  const done = cell.steps.filter((step) => step.status === "completed").length;
  return html`<section class="plan" aria-label="Plan">
    <div class="heading">Plan <span class="dim">${done} of ${cell.steps.length} done</span></div>
    ${cell.explanation && html`<p class="dim">${cell.explanation}</p>`}
    <ol>
      ${cell.steps.map((step) => {
        const [mark, word] = STEP_MARKS[step.status ?? "pending"] ?? ["○", "to do"];
        return html`<li class=${`step ${step.status}`}><span class="mark" aria-hidden="true">${mark}</span><span class="unseen">${word}: </span>${step.step}</li>`;
      })}
    </ol>
  </section>`;
}

/** A question in the transcript: while it is open it leads to the approvals. @param {{cell: any}} props */
export function QuestionLine({ cell }) {
  const isForm = cell.kind === "elicitation";
  const title = isForm ? `the MCP server ${cell.request.server} asks: ${cell.request.message}` : cell.request.title;
  const answer = isForm ? formAnswer(cell) : cell.answer && answerText(cell.answer);
  if (!answer) {
    const isOpen = app.feeds.get(app.route.session ?? "")?.board?.questions.has(cell.key);
    return html`<div class="question open">
      <span class="mark" aria-hidden="true">?</span>
      <span class="asks">${title}</span>
      ${isOpen
        ? html`<button type="button" onClick=${() => app.go({ panel: "approvals", page: "panel" })}>Answer</button>`
        : html`<span class="dim">no answer</span>`}
    </div>`;
  }
  const yes = isForm ? cell.action === "accept" : cell.answer.decision === "allow";
  return html`<div class=${classes("question", yes ? "yes" : "no")}>
    <span class="mark" aria-hidden="true">${yes ? "✓" : "✗"}</span>
    <span>${title}</span> <span class="dim">${answer}</span>
  </div>`;
}

/** @param {import("../types.js").ElicitationCell} cell */
function formAnswer(cell) {
  const words = { accept: "answered", decline: "declined", cancel: "cancelled" };
  return cell.action && words[cell.action];
}

/** @param {{cell: import("../types.js").NoticeCell}} props */
export function Notice({ cell }) {
  const mark = { note: "·", warning: "!", error: "✗" }[cell.level];
  return html`<div class=${`notice ${cell.level}`}>
    <span class="mark" aria-hidden="true">${mark}</span>
    <span>${cell.level !== "note" && html`<span class="unseen">${cell.level}: </span>`}${cell.text}</span>
  </div>`;
}

/** @param {{cell: import("../types.js").TaskEndCell}} props */
export function TaskEnd({ cell }) {
  return html`<div class=${classes("task-end", cell.status !== "completed" && "stopped")}><span>${endText(cell)}</span></div>`;
}

/** @param {{cell: import("../types.js").GapCell}} props */
export const Gap = ({ cell }) =>
  html`<div class="notice warning">${counted(cell.to_seq - cell.from_seq + 1, "event")} could not be had any more; the record has them.</div>`;
