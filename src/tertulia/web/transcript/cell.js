// One cell of a transcript. It is drawn again only when its revision has changed.

import { Component, html } from "../parts/html.js";
import { Call } from "./call_cells.js";
import { AssistantText, Gap, Notice, Plan, QuestionLine, Reasoning, TaskEnd, UserMessage } from "./message_cells.js";

/** @type {Record<string, any>} */
const VIEWS = {
  user_text: UserMessage,
  assistant_text: AssistantText,
  reasoning: Reasoning,
  tool_call: Call,
  command: Call,
  patch: Call,
  handoff: Call,
  plan: Plan,
  approval_question: QuestionLine,
  elicitation: QuestionLine,
  notice: Notice,
  task_end: TaskEnd,
  gap: Gap,
};

/** @typedef {{cell: import("../types.js").Cell, revision: number, name: import("../board/text.js").NameOf, label: string | null, woven: boolean, found: boolean}} CellProps */

/** Compares by identity and revision, because cells are changed in place. */
export class CellView extends Component {
  /** @param {CellProps} next */
  shouldComponentUpdate(next) {
    const { cell, revision, label, found } = this.props;
    return next.cell !== cell || next.revision !== revision || next.label !== label || next.found !== found;
  }

  /** @param {CellProps} props */
  render({ cell, name, label, woven, found }) {
    const view = VIEWS[cell.kind];
    if (!view) return null;
    return html`<article class=${found ? "cell found" : "cell"} data-key=${cell.key}>
      ${label !== null && html`<div class="whose">${label}</div>`}<${view} cell=${cell} name=${name} woven=${woven} />
    </article>`;
  }
}
