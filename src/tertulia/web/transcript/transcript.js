// The transcript of a conversation, or of a chain of them woven together.

import { namesOf } from "../board/text.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { CellView } from "./cell.js";
import { lazy } from "../parts/lazy.js";
import { around, atEnd, earlier, fitted, later, moved } from "./window.js";
import { wovenCells } from "./weave.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */
/** @typedef {import("../types.js").ConversationView} ConversationView */

const FindBar = lazy(async () => (await import("./find.js")).FindBar);
const NEAR_PX = 60;

/** @param {{feed: SessionFeed, view: ConversationView}} props */
export function Transcript({ feed, view }) {
  const ids = app.weave && feed.board ? [...feed.board.conversations.keys()] : [view.id];
  useTopics("route", "weave", "find", ...ids.map((id) => `s/${feed.sessionId}/c/${id}`));
  const older = app.weave ? undefined : feed.older.get(view.id);
  const entries = app.weave && feed.board ? wovenCells(feed.board, view.id) : [...(older?.cells ?? []), ...view.cells].map((cell) => ({ cell, owner: null }));
  const [wanted, setWanted] = useState(() => ({ ...atEnd(entries.length), prepended: 0 }));
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  // Cells that came in before the others move the window with them.
  const prepended = older?.prepended ?? 0;
  const shown = fitted(moved(wanted, prepended - wanted.prepended), entries.length);
  const setWindow = (/** @type {import("./window.js").Window} */ window) => setWanted({ ...window, prepended });
  const name = useMemo(() => (feed.board ? namesOf(feed.board) : String), [feed.board]);
  const [found, setFound] = useState(/** @type {string | null} */ (null));

  useEffect(() => setWindow(atEnd(entries.length)), [feed.sessionId, view.id, app.weave]);
  useEffect(() => {
    if (!document.hidden) feed.read(view.id);
  });
  useFollowing(scroller, shown.follows);
  usePlaceKept(scroller, shown.first - prepended);
  const onServer = !app.weave && (older ? !older.atStart : view.dropped > 0);
  const more = useMore(feed, view, scroller, () => setWanted((before) => {
    const now = feed.older.get(view.id);
    const count = (now?.prepended ?? 0) - before.prepended;
    return { ...earlier(fitted(moved(before, count), (now?.cells.length ?? 0) + view.cells.length)), prepended: now?.prepended ?? 0 };
  }));

  const place = useRef({ top: 0, height: 0, room: 0 });
  const scrolled = () => {
    const box = scroller.current;
    if (!box) return;
    // What comes in above is no step of a person: the browser then goes down, to keep the place. Nor is what goes away, or
    // another room for it: the browser then goes up, as far as there is something.
    const { top, height, room } = place.current;
    const isUp = box.scrollTop < top && box.scrollHeight >= height && box.clientHeight === room;
    place.current = { top: box.scrollTop, height: box.scrollHeight, room: box.clientHeight };
    const isAtTop = box.scrollTop < NEAR_PX && box.scrollHeight > box.clientHeight;
    if (isAtTop && (shown.first > 0 || onServer)) {
      void more(shown.first === 0);
      return;
    }
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    if (isAtEnd && shown.last >= entries.length) {
      if (!wanted.follows) setWindow(atEnd(entries.length));
    } else if (isAtEnd) setWindow(later(shown, entries.length));
    else if (wanted.follows && isUp) setWindow({ ...shown, follows: false });
    else if (wanted.follows) box.scrollTop = box.scrollHeight;
  };
  const showCell = (/** @type {string} */ key) => {
    setFound(key);
    const index = entries.findIndex((entry) => entry.cell.key === key);
    if (index >= 0) setWindow(around(index, entries.length));
    requestAnimationFrame(() => scroller.current?.querySelector(`[data-key="${CSS.escape(key)}"]`)?.scrollIntoView({ block: "center" }));
  };

  return html`<div class="transcript-pane">
    ${app.finding && html`<${FindBar} entries=${entries} show=${showCell} />`}
    <section class="transcript" data-shown=${feed.replays ? feed.shown : undefined} ref=${scroller} onScroll=${scrolled} tabindex="0" aria-label="Transcript">
      ${(shown.first > 0 || onServer) && html`<button type="button" class="earlier" onClick=${() => more(shown.first === 0)}>Earlier</button>`}
      ${entries.slice(shown.first, shown.last).map(({ cell, owner }) => html`<${CellView}
        key=${owner === null ? cell.key : `${owner.id} ${cell.key}`} cell=${cell} revision=${cell.revision}
        name=${name} label=${owner?.label ?? null} woven=${owner !== null} found=${cell.key === found} />`)}
      ${entries.length === 0 && !feed.notStored && html`<p class="empty">Nothing was said here yet.</p>`}
    </section>
    ${!shown.follows && html`<button type="button" class="to-end" onClick=${() => setWindow(atEnd(entries.length))}>↓ To the end</button>`}
  </div>`;
}

/** The way to older cells: first those that are held here, then those of the record. One step at a time.
 * @param {SessionFeed} feed @param {ConversationView} view @param {{current: HTMLElement | null}} scroller @param {() => void} show */
function useMore(feed, view, scroller, show) {
  const reading = useRef(false);
  return async (/** @type {boolean} */ isFirst) => {
    if (reading.current) return;
    reading.current = true;
    if (isFirst) await feed.loadMore(view.id);
    show();
    // Until it is drawn: then what a person reads has its place again, and is not at the top.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      reading.current = false;
      // A person may have gone on to the top meanwhile.
      scroller.current?.dispatchEvent(new Event("scroll"));
    }));
  };
}

/** While it follows, the end stays in sight. @param {{current: HTMLElement | null}} scroller @param {boolean} follows */
function useFollowing(scroller, follows) {
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box && follows) box.scrollTop = box.scrollHeight;
  });
  // Also where the room for it becomes less, as by the keyboard of a phone.
  useEffect(() => {
    const box = scroller.current;
    if (!box || !follows) return undefined;
    const observer = new ResizeObserver(() => (box.scrollTop = box.scrollHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, [follows]);
}

/** What a person reads stays where it is when older cells come in above. @param {{current: HTMLElement | null}} scroller @param {number} first */
function usePlaceKept(scroller, first) {
  const before = useRef(/** @type {{first: number, cell: HTMLElement | null, top: number}} */ ({ first, cell: null, top: 0 }));
  useLayoutEffect(() => {
    const { cell, top } = before.current;
    if (scroller.current && first < before.current.first && cell?.isConnected) scroller.current.scrollTop += cell.offsetTop - top;
    const now = /** @type {HTMLElement | null} */ (scroller.current?.querySelector(".cell") ?? null);
    before.current = { first, cell: now, top: now?.offsetTop ?? 0 };
  });
}
