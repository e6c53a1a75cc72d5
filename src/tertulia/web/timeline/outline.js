// The outline of a stored session: its tasks, calls, questions and delegations in time, without texts.

import { useEffect, useState } from "../parts/html.js";
import { app } from "../app_state.js";

/**
 * @typedef {{id: string, parent_id: string | null, title?: string | null, opened_at: number}} OutlineConversation
 * @typedef {{task_id: string, conversation_id: string, kind: string, start: number, end?: number | null, ending?: string | null, first_n: number, last_n: number}} Span
 * @typedef {{conversation_id: string, kind: "call" | "question" | "yes" | "no", at: number, n: number, name?: string}} Mark
 * @typedef {{caller_id: string, target_id: string, at: number, back?: boolean}} Arrow
 * @typedef {{n: number, conversation_id: string, task_id: string, at: number}} ModelRequest
 * @typedef {{last_n: number, first_ts: number, last_ts: number, conversations: OutlineConversation[], spans: Span[], marks: Mark[],
 *   arrows: Arrow[], requests: ModelRequest[], pauses: Array<{start: number, end: number}>, counts: Record<string, number>}} Outline
 */

/** A session that changes is outlined again at most so often, and a long one less often: so many times as long as it took. */
const FRESH_MS = 500;
const REST = 8;
/** @typedef {{outline: Outline | null, error: string, of: string, version: string | null, took: number}} Read */
/** The one that was read last: what opens beside it need not wait. @type {Read} */
let newest = { outline: null, error: "", of: "", version: null, took: 0 };

/** The outline of a session; read again when it has changed. @param {string} sessionId
 * @param {string | null} version null: not yet; "": any will do @returns {{outline: Outline | null, error: string}} */
export function useOutline(sessionId, version) {
  const [state, setState] = useState(newest);
  useEffect(() => {
    if (version === null) return undefined;
    if (newest.of === sessionId && newest.outline && (version === "" || version === newest.version)) {
      setState(newest);
      return undefined;
    }
    let current = true;
    const read = () => {
      const begun = performance.now();
      app.link.request("record/outline", { session_id: sessionId }).then(
        (outline) => current && setState((newest = { outline, error: "", of: sessionId, version, took: performance.now() - begun })),
        (error) => current && setState((before) => ({ ...before, error: error.message, of: sessionId })),
      );
    };
    const timer = setTimeout(read, state.of === sessionId ? Math.max(FRESH_MS, REST * state.took) : 0);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [sessionId, version, app.link.state]);
  return state.of === sessionId ? state : { outline: null, error: "" };
}

/** The conversations, each below its parent. @param {Outline} outline @returns {Array<OutlineConversation & {depth: number}>} */
export function inTreeOrder(outline) {
  const known = new Set(outline.conversations.map((one) => one.id));
  /** @type {Map<string | null, OutlineConversation[]>} */
  const children = new Map();
  for (const one of outline.conversations) {
    const parent = one.parent_id && known.has(one.parent_id) ? one.parent_id : null;
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  /** @type {Array<OutlineConversation & {depth: number}>} */
  const ordered = [];
  const waiting = (children.get(null) ?? []).map((one) => ({ ...one, depth: 0 })).reverse();
  for (let one = waiting.pop(); one; one = waiting.pop()) {
    ordered.push(one);
    const depth = one.depth + 1;
    waiting.push(...(children.get(one.id) ?? []).map((child) => ({ ...child, depth })).reverse());
  }
  return ordered;
}

/** Every record at which something begins, ends or is asked, in order. @param {Outline} outline @returns {Array<{n: number, at: number}>} */
export function moments(outline) {
  const found = [
    ...outline.spans.flatMap((span) => [{ n: span.first_n, at: span.start }, ...(span.end ? [{ n: span.last_n, at: span.end }] : [])]),
    ...outline.marks.map(({ n, at }) => ({ n, at })),
    ...outline.requests.map(({ n, at }) => ({ n, at })),
  ].sort((a, b) => a.n - b.n);
  return found.filter((one, index) => one.n !== found[index - 1]?.n);
}

/** The last of them that is not after this record. @template {{n: number}} T @param {T[]} list @param {number} n @returns {T | null} */
export function lastUpTo(list, n) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {T} */ (list[middle]).n <= n) low = middle + 1;
    else high = middle;
  }
  return list[low - 1] ?? null;
}
