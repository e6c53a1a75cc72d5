// Shows in a copy of a conversation what it began with: no event tells of it, and its original has it.

import { addToView, makeView } from "./conversation_view.js";

const QUESTIONS = new Set(["approval_question", "elicitation"]);

/**
 * Put the cells of the original into its copy, up to the one of this item. Questions belong to the original.
 * @param {import("./board.js").Board} board
 * @param {string} originalId
 * @param {string} copyId
 * @param {string} itemId
 */
export function copyCells(board, originalId, copyId, itemId) {
  const cells = board.conversations.get(originalId)?.cells ?? [];
  const end = cells.findIndex((cell) => "item_id" in cell && cell.item_id === itemId);
  const view = board.conversations.get(copyId) ?? makeView(copyId);
  if (view.cells.length) return;
  board.conversations.set(copyId, view);
  for (const cell of cells.slice(0, end + 1)) if (!QUESTIONS.has(cell.kind)) addToView(view, { ...cell });
}
