// Which cells of a transcript are drawn: a window that follows the end, or stands where a person reads.

/** Cells that are drawn at first, and by how many the window grows. */
export const STEP = 120;
const MOST = 3 * STEP;

/** @typedef {{first: number, last: number, follows: boolean}} Window */

/** The window at the end. @param {number} count @returns {Window} */
export const atEnd = (count) => ({ first: Math.max(0, count - STEP), last: count, follows: true });

/** More before; where it becomes too large, the end goes. @param {Window} window @returns {Window} */
export function earlier({ first, last }) {
  const begin = Math.max(0, first - STEP);
  return { first: begin, last: Math.min(last, begin + MOST), follows: false };
}

/** More after. @param {Window} window @param {number} count @returns {Window} */
export function later({ first, last }, count) {
  const end = Math.min(count, last + STEP);
  return { first: Math.max(first, end - MOST), last: end, follows: false };
}

/** A window in which this cell is. @param {number} index @param {number} count @returns {Window} */
export function around(index, count) {
  const first = Math.max(0, index - STEP / 2);
  return { first, last: Math.min(count, first + STEP), follows: false };
}

/** The window for so many cells now. @param {Window} window @param {number} count @returns {Window} */
export function fitted(window, count) {
  if (window.follows) return atEnd(count);
  const last = Math.min(window.last, count);
  return { ...window, first: Math.min(window.first, last), last };
}

/** The same cells, after others came in before them. @param {Window} window @param {number} count @returns {Window} */
export const moved = (window, count) => ({ ...window, first: window.first + count, last: window.last + count });
