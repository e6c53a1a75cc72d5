// The transcript of a conversation, or of a chain of them woven together.

import { namesOf } from "../board/text.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { CellView } from "./cell.js";
import { FindBar, findIn } from "./find.js";
import { around, atEnd, earlier, fitted, later } from "./window.js";
import { wovenCells } from "./weave.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */
/** @typedef {import("../types.js").ConversationView} ConversationView */

const NEAR_PX = 60;

/** @param {{feed: SessionFeed, view: ConversationView}} props */
export function Transcript({ feed, view }) {
  const ids = app.weave && feed.board ? [...feed.board.conversations.keys()] : [view.id];
  useTopics("route", "weave", "find", ...ids.map((id) => `s/${feed.sessionId}/c/${id}`));
  const entries = app.weave && feed.board ? wovenCells(feed.board, view.id) : view.cells.map((cell) => ({ cell, owner: null }));
  const [wanted, setWindow] = useState(() => atEnd(entries.length));
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = fitted(wanted, entries.length);
  const name = useMemo(() => (feed.board ? namesOf(feed.board) : String), [feed.board]);
  const [found, setFound] = useState(/** @type {string | null} */ (null));

  useEffect(() => setWindow(atEnd(entries.length)), [feed.sessionId, view.id, app.weave]);
  useEffect(() => {
    if (!document.hidden) feed.read(view.id);
  });
  useFollowing(scroller, shown.follows);
  usePlaceKept(scroller, shown.first);

  const scrolled = () => {
    const box = scroller.current;
    if (!box) return;
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    if (isAtEnd && shown.last >= entries.length) {
      if (!wanted.follows) setWindow(atEnd(entries.length));
    } else if (isAtEnd) setWindow(later(shown, entries.length));
    else if (wanted.follows) setWindow({ ...shown, follows: false });
  };
  const showCell = (/** @type {string} */ key) => {
    setFound(key);
    const index = entries.findIndex((entry) => entry.cell.key === key);
    if (index >= 0) setWindow(around(index, entries.length));
    requestAnimationFrame(() => scroller.current?.querySelector(`[data-key="${CSS.escape(key)}"]`)?.scrollIntoView({ block: "center" }));
  };

  return html`<div class="transcript-pane">
    <${FindBar} find=${(/** @type {string} */ text) => findIn(entries, text)} show=${showCell} />
    <section class="transcript" ref=${scroller} onScroll=${scrolled} tabindex="0" aria-label="Transcript">
      <${Earlier} feed=${feed} view=${view} first=${shown.first} more=${() => setWindow(earlier(shown))} />
      ${entries.slice(shown.first, shown.last).map(({ cell, owner }) => html`<${CellView}
        key=${owner === null ? cell.key : `${owner.id} ${cell.key}`} cell=${cell} revision=${cell.revision}
        name=${name} label=${owner?.label ?? null} woven=${owner !== null} found=${cell.key === found} />`)}
      ${entries.length === 0 && !feed.notStored && html`<p class="empty">Nothing was said here yet.</p>`}
    </section>
    ${!shown.follows && html`<button type="button" class="to-end" onClick=${() => setWindow(atEnd(entries.length))}>↓ To the end</button>`}
  </div>`;
}

/** The way to older cells: first those that are held here, then those that the server has.
 * @param {{feed: SessionFeed, view: ConversationView, first: number, more: () => void}} props */
function Earlier({ feed, view, first, more }) {
  if (first > 0) return html`<button type="button" class="earlier" onClick=${more}>Earlier (${first})</button>`;
  if (view.dropped > 0) {
    return html`<button type="button" class="earlier" onClick=${() => void feed.loadMore()}>Earlier (${view.dropped} more on the server)</button>`;
  }
  return null;
}

/** While it follows, the end stays in sight. @param {{current: HTMLElement | null}} scroller @param {boolean} follows */
function useFollowing(scroller, follows) {
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box && follows) box.scrollTop = box.scrollHeight;
  });
}

/** What a person reads stays where it is when older cells come in above. @param {{current: HTMLElement | null}} scroller @param {number} first */
function usePlaceKept(scroller, first) {
  const before = useRef({ first, height: 0 });
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    if (first < before.current.first && box.scrollTop < NEAR_PX) box.scrollTop += box.scrollHeight - before.current.height;
    before.current = { first, height: box.scrollHeight };
  });
}
