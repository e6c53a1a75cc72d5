// A conversation and all that it asked others, told as one story: the cells of its branch in the order of their events.

import { nameOf } from "../board/text.js";

/** @typedef {import("../types.js").Cell} Cell */
/** @typedef {{cell: Cell, owner: {id: string, label: string | null}}} WovenCell */

/** @param {import("../board/board.js").Board} board @param {string} rootId @returns {WovenCell[]} */
export function wovenCells(board, rootId) {
  const branch = branchOf(board, rootId);
  const all = branch.flatMap((view) => view.cells.map((cell) => ({ cell, view })));
  // A text that still grows has no number yet: it is the newest.
  all.sort((a, b) => (a.cell.seq ?? Infinity) - (b.cell.seq ?? Infinity) || (a.cell.ts < b.cell.ts ? -1 : a.cell.ts > b.cell.ts ? 1 : 0));
  let last = "";
  return all.map(({ cell, view }) => {
    const label = view.id === last ? null : nameOf(view, board.root_id);
    last = view.id;
    return { cell, owner: { id: view.id, label } };
  });
}

/** A conversation and those below it. @param {import("../board/board.js").Board} board @param {string} rootId */
function branchOf(board, rootId) {
  const inside = new Set([rootId]);
  return board.tree().filter((view) => {
    if (view.parent_id !== null && inside.has(view.parent_id)) inside.add(view.id);
    return inside.has(view.id);
  });
}
