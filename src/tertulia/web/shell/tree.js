// The conversations of a session: state, what each does now, what was not read. Only rows in sight are drawn.

import { stateOf, waitingTargets } from "../board/conversation_view.js";
import { duration, grouped, headline, nameOf, namesOf, STATE_MARKS, STATE_WORDS } from "../board/text.js";
import { isCall } from "../board/cells.js";
import { classes, html, useLayoutEffect, useRef, useState } from "../parts/html.js";
import { useNow } from "../parts/now.js";
import { app, useTopics } from "../app_state.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */
/** @typedef {import("../types.js").ConversationView} ConversationView */

export const ROW_PX = 46;
const SPARE_ROWS = 4;
const MAX_INDENT = 6;

/** What a conversation does now, or how it is left. @param {SessionFeed} feed @param {ConversationView} view @param {number} now */
function activity(feed, view, now) {
  const state = stateOf(view);
  const board = feed.board;
  if (state === "waiting" && board) {
    const targets = waitingTargets(view).map(namesOf(board));
    return targets.length ? `waits for ${targets.join(", ")}` : STATE_WORDS.waiting;
  }
  if (state !== "running") return state === "idle" ? idleText(view) : STATE_WORDS[state];
  const last = view.cells.at(-1);
  const spent = view.since ? ` · ${duration(Math.max(0, now - Date.parse(view.since)) / 1000)}` : "";
  if (last && isCall(last) && !(/** @type {any} */ (last).done)) return headline(last) + spent;
  if (last?.kind === "assistant_text") return `writes${spent}`;
  return `${last?.kind === "reasoning" ? "thinks" : "works"}${spent}`;
}

/** @param {ConversationView} view */
const idleText = (view) => (view.context_tokens ? `${grouped(view.context_tokens)} tokens` : STATE_WORDS.idle);

/** @param {{feed: SessionFeed}} props */
export function Tree({ feed }) {
  useTopics("route", `s/${feed.sessionId}`, `s/${feed.sessionId}/tree`);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [place, setPlace] = useState({ top: 0, height: 800 });
  const views = feed.board?.tree() ?? [];
  const now = useNow(views.some((view) => view.task_id !== null), app.replay?.at);
  const selected = views.findIndex((view) => view.id === app.route.conversation);
  useLayoutEffect(() => {
    if (box.current) setPlace({ top: box.current.scrollTop, height: box.current.clientHeight });
  }, [views.length > 0]);
  useLayoutEffect(() => keepInSight(box.current, selected), [selected]);
  const first = Math.max(0, Math.floor(place.top / ROW_PX) - SPARE_ROWS);
  const last = Math.min(views.length, Math.ceil((place.top + place.height) / ROW_PX) + SPARE_ROWS);
  const scrolled = () => box.current && setPlace({ top: box.current.scrollTop, height: box.current.clientHeight });
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    stepConversation(step);
  };
  const chosen = views[selected];
  return html`<div class="tree" role="tree" aria-label="Conversations" tabindex="0" ref=${box} onScroll=${scrolled} onKeyDown=${pressed}
    aria-activedescendant=${chosen ? `conversation-${chosen.id}` : undefined}>
    <div class="tree-rows" role="presentation" style=${{ height: `${views.length * ROW_PX}px` }}>
      ${views.slice(first, last).map((view, index) => html`<${Row} key=${view.id} feed=${feed} view=${view} top=${(first + index) * ROW_PX}
        place=${first + index + 1} count=${views.length} now=${now} chosen=${view.id === chosen?.id} />`)}
    </div>
  </div>`;
}

/** @param {any} props */
function Row({ feed, view, top, place, count, now, chosen }) {
  const state = stateOf(view);
  const unread = feed.unread(view);
  const indent = Math.min(view.depth, MAX_INDENT) * 14;
  return html`<div class=${classes("row", `is-${state}`, chosen && "chosen")} id=${`conversation-${view.id}`} role="treeitem" aria-level=${view.depth + 1}
    aria-selected=${chosen} aria-posinset=${place} aria-setsize=${count} style=${{ top: `${top}px`, paddingLeft: `${12 + indent}px` }}
    onClick=${() => app.go({ conversation: view.id, page: "transcript" })}>
    <span class="mark" aria-hidden="true">${STATE_MARKS[/** @type {keyof typeof STATE_MARKS} */ (state)]}</span>
    <span class="row-text">
      <span class="row-name">${nameOf(view, feed.board?.root_id)}</span>
      <span class="row-act">${activity(feed, view, now)}</span>
    </span>
    ${unread > 0 && html`<span class="badge" aria-label=${`${unread} not read`}>${unread > 99 ? "99+" : unread}</span>`}
  </div>`;
}

/** @param {HTMLElement | null} box @param {number} index */
function keepInSight(box, index) {
  if (!box || index < 0) return;
  const top = index * ROW_PX;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW_PX > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW_PX - box.clientHeight;
}

/** Choose the next or the previous conversation. @param {number} step */
export function stepConversation(step) {
  const views = app.selected()?.board?.tree() ?? [];
  const at = views.findIndex((view) => view.id === app.route.conversation);
  const next = views[Math.max(0, Math.min(views.length - 1, at + step))];
  if (next) app.go({ conversation: next.id }, true);
}
