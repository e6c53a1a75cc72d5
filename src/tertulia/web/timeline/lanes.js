// The time line: a lane a conversation, its tasks as bars, calls and questions as marks, delegations as arrows.

import { classes, html, useLayoutEffect, useMemo, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { lazy } from "../parts/lazy.js";
import { inTreeOrder, lastUpTo, moments, useOutline } from "./outline.js";
import { briefly, gathered, lasted, Scale } from "./scale.js";

/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {import("./outline.js").Span} Span */
/** @typedef {{start: number, end: number}} Range */

export const ROW = 22;
export const MOST_ROWS = 40;
/** Bars, marks and arrows that are elements; more are painted. */
const MOST_ELEMENTS = 2_000;
const CLICK_PX = 4;
/** At the right of the drawing, for the mark of what happens now. */
const EDGE_PX = 8;
const SPOKEN_ROWS = 100;

const PaintedLanes = lazy(async () => (await import("./painted_lanes.js")).PaintedLanes);

/** @param {{feed: import("../link/session_feed.js").SessionFeed}} props */
export function Lanes({ feed }) {
  useTopics("route", `s/${feed.sessionId}`, `s/${feed.sessionId}/tree`);
  const runs = app.cards.has(feed.sessionId);
  // While the past is looked at, the time line stays as it is.
  const version = useRef(/** @type {string | null} */ (null));
  if (app.route.n !== null) version.current ??= "";
  else if (feed.board) version.current = `${feed.board.seq}`;
  const { outline, error } = useOutline(feed.sessionId, version.current);
  const [zoom, setZoom] = useState(/** @type {Range | null} */ (null));
  const spoken = useMemo(() => outline && html`<${Spoken} outline=${outline} />`, [outline, runs]);
  if (error) return html`<div class="lanes-note dim">No time line: ${error}</div>`;
  if (!outline || !outline.spans.length) return null;
  const start = Math.min(...outline.spans.slice(0, 20).map((span) => span.start));
  const whole = { start, end: Math.max(outline.last_ts, start + 0.2) };
  return html`<section class="lanes" aria-label="Time line">
    <${Drawing} outline=${outline} range=${zoom ?? whole} zoomTo=${setZoom} runs=${runs} />
    <div class="lanes-foot dim">
      <span>${clock(zoom?.start ?? whole.start)}</span>
      <span class="space"></span>
      ${zoom ? html`<button type="button" class="quiet" onClick=${() => setZoom(null)}>Show all</button>` : html`<span class="lanes-hint">drag to zoom, click to go there</span>`}
      <span class="space"></span>
      <span>${clock(zoom?.end ?? whole.end)}</span>
    </div>
    ${spoken}
  </section>`;
}

/** @param {{outline: Outline, range: Range, zoomTo: (range: Range) => void, runs: boolean}} props */
function Drawing({ outline, range, zoomTo, runs }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(600);
  const [brush, setBrush] = useState(/** @type {{from: number, to: number} | null} */ (null));
  const [first, setFirst] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(Math.max(120, element.clientWidth - 4)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const rows = useMemo(() => inTreeOrder(outline), [outline]);
  const order = useMemo(() => moments(outline), [outline]);
  const scale = useMemo(() => new Scale(range, outline.pauses, width - EDGE_PX), [outline, range.start, range.end, width]);
  // What is drawn stays the same while only the moment moves: so a step of a replay draws none of it again.
  const isPainted = outline.spans.length + outline.marks.length + outline.arrows.length > MOST_ELEMENTS;
  const drawn = useMemo(() => {
    if (isPainted) return null;
    const row = new Map(rows.map((one, index) => [one.id, index]));
    return html`${rows.slice(first, first + MOST_ROWS).map((one) => html`<${Lane} key=${one.id} outline=${outline} id=${one.id} y=${(row.get(one.id) ?? 0) * ROW} scale=${scale} />`)}
      <${Arrows} outline=${outline} scale=${scale} row=${row} first=${first} />`;
  }, [outline, rows, first, scale, runs]);

  const place = (/** @type {PointerEvent} */ event) => event.clientX - (box.current?.getBoundingClientRect().left ?? 0);
  const begin = (/** @type {PointerEvent} */ event) => {
    if (event.button !== 0) return;
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    setBrush({ from: place(event), to: place(event) });
  };
  const move = (/** @type {PointerEvent} */ event) => brush && setBrush({ ...brush, to: place(event) });
  const end = () => {
    if (!brush) return;
    setBrush(null);
    const [from, to] = [Math.min(brush.from, brush.to), Math.max(brush.from, brush.to)];
    if (to - from > CLICK_PX) zoomTo({ start: scale.at(from), end: scale.at(to) });
    else goTo(order, scale.at(from));
  };
  const scrolled = (/** @type {Event} */ event) => {
    const top = Math.floor(/** @type {HTMLElement} */ (event.currentTarget).scrollTop / ROW);
    if (Math.abs(top - first) > MOST_ROWS / 4) setFirst(Math.max(0, top - MOST_ROWS / 4));
  };
  const now = app.route.n === null ? null : lastUpTo(order, Number(app.route.n));
  return html`<div class="lanes-box" onScroll=${scrolled}>
    <ol class="lane-names" aria-hidden="true">${rows.map((one) => html`<li key=${one.id} class=${classes("preview", one.id === app.route.conversation && "chosen")}>
      <span class=${`depth-${Math.min(one.depth, 6)}`}></span>${one.title ?? (one.parent_id ? one.id.slice(0, 8) : "root")}</li>`)}</ol>
    <div class="lanes-drawing" ref=${box}>
      ${isPainted && html`<${PaintedLanes} outline=${outline} rows=${rows} first=${first} scale=${scale} />`}
      <svg width=${width} height=${rows.length * ROW} aria-hidden="true" onPointerDown=${begin} onPointerMove=${move} onPointerUp=${end} onPointerCancel=${() => setBrush(null)}>
        ${scale.pauses.map((pause) => html`<g class="pause"><rect x=${scale.x(pause.start)} width=${scale.x(pause.end) - scale.x(pause.start)} y="0" height=${rows.length * ROW} />
          <text x=${(scale.x(pause.start) + scale.x(pause.end)) / 2} y=${ROW - 7}>${briefly(pause.end - pause.start)}</text>
          <title>nothing ran for ${lasted(pause.end - pause.start)}</title></g>`)}
        ${drawn}
        ${now && html`<line class="now-line" x1=${scale.x(now.at)} x2=${scale.x(now.at)} y1="0" y2=${rows.length * ROW} />`}
        ${brush && html`<rect class="brush" x=${Math.min(brush.from, brush.to)} width=${Math.abs(brush.to - brush.from)} y="0" height=${rows.length * ROW} />`}
      </svg>
    </div>
  </div>`;
}

/** @param {{outline: Outline, id: string, y: number, scale: Scale}} props */
function Lane({ outline, id, y, scale }) {
  const spans = apart(outline.spans.filter((span) => span.conversation_id === id && scale.shows(span.start, span.end ?? scale.range.end)), scale);
  const marks = outline.marks.filter((mark) => mark.conversation_id === id);
  const calls = gathered(marks.filter((mark) => mark.kind === "call"), scale);
  const questions = gathered(marks.filter((mark) => mark.kind !== "call"), scale, 9);
  return html`<g class="lane">
    <line class="lane-line" x1="0" x2=${scale.width + EDGE_PX} y1=${y + ROW / 2} y2=${y + ROW / 2} />
    ${spans.map((span) => html`<${Bar} key=${span.task_id} span=${span} y=${y} scale=${scale} />`)}
    ${calls.map((group) => html`<circle class="call-mark" cx=${group.x} cy=${y + ROW / 2} r=${group.count > 1 ? 3.5 : 2.5}>
      <title>${group.count > 1 ? `${group.count} calls, the first ${group.first.name}` : group.first.name}</title></circle>`)}
    ${questions.map((group) => html`<path class=${`question-mark is-${group.first.kind}`} d=${`M${group.x - 5} ${y + ROW - 4} h10 l-5 -9 z`}>
      <title>${{ question: "a question", yes: "answered with yes", no: "answered with no", call: "" }[group.first.kind]}</title></path>`)}
  </g>`;
}

/** Without bars that would lie in the pixel of the one before. @param {Span[]} spans @param {Scale} scale */
export function apart(spans, scale) {
  let end = -Infinity;
  return spans.filter((span) => {
    const to = scale.x(span.end ?? scale.range.end);
    if (to < end + 1 && good(span)) return false;
    end = to;
    return true;
  });
}

/** @param {Span} span */
const good = ({ ending }) => !ending || ending === "completed" || ending === "replaced";

/** Where the bar of a task stands, and how it ended. @param {Span} span @param {Scale} scale */
export function barLook(span, scale) {
  const end = span.end ?? scale.range.end;
  const lost = !span.end && !app.cards.has(app.route.session ?? "");
  return { end, lost, failed: lost || !good(span), x1: Math.max(0, scale.x(span.start)), x2: Math.min(scale.width, scale.x(end)) };
}

/** @param {{span: Span, y: number, scale: Scale}} props */
function Bar({ span, y, scale }) {
  const { end, lost, failed, x1, x2 } = barLook(span, scale);
  const ending = span.ending ?? (lost ? "ended with its process" : "running");
  return html`<rect class=${classes("bar", `bar-${span.kind}`, failed && "bar-failed", !span.end && !lost && "bar-running")}
    x=${x1} y=${y + 4} width=${Math.max(2, x2 - x1)} height=${ROW - 8} rx="3">
    <title>${`${span.kind} task, ${lasted(end - span.start)}, ${ending === "replaced" ? "asked another conversation" : ending}`}</title></rect>`;
}

/** The arrows between rows that are drawn: where they stand, and where their tips are.
 * @param {Outline} outline @param {Scale} scale @param {Map<string, number>} row @param {number} first */
export function waysInSight(outline, scale, row, first) {
  const seen = (/** @type {number | undefined} */ at) => at !== undefined && at >= first && at < first + MOST_ROWS;
  const inSight = outline.arrows.filter((arrow) => seen(row.get(arrow.caller_id)) && seen(row.get(arrow.target_id)));
  // Each way for itself: an answer that came at once has an arrow, too.
  const ways = [false, true].flatMap((back) => gathered(inSight.filter((arrow) => Boolean(arrow.back) === back), scale, 2));
  return ways.map(({ first: arrow, x }) => {
    const [caller, target] = [row.get(arrow.caller_id) ?? 0, row.get(arrow.target_id) ?? 0];
    const [from, to] = arrow.back ? [target, caller] : [caller, target];
    const [y1, y2] = [from * ROW + ROW / 2, to * ROW + ROW / 2];
    return { x, y1, y2, tip: y2 > y1 ? -5 : 5, back: Boolean(arrow.back) };
  });
}

/** @param {{outline: Outline, scale: Scale, row: Map<string, number>, first: number}} props */
function Arrows({ outline, scale, row, first }) {
  return waysInSight(outline, scale, row, first).map(({ x, y1, y2, tip, back }) =>
    html`<g class=${classes("arrow", back && "back")}><line x1=${x} x2=${x} y1=${y1} y2=${y2} />
      <path d=${`M${x - 3} ${y2 + tip} L${x} ${y2} L${x + 3} ${y2 + tip}`} /></g>`);
}

/** The same for screen readers: the last tasks as a table. @param {{outline: Outline}} props */
function Spoken({ outline }) {
  const names = new Map(outline.conversations.map((one) => [one.id, one.title ?? (one.parent_id ? one.id.slice(0, 8) : "root")]));
  const last = outline.spans.slice(-SPOKEN_ROWS);
  return html`<table class="unseen"><caption>Tasks in time${outline.spans.length > last.length ? `, the last ${SPOKEN_ROWS}` : ""}</caption>
    <thead><tr><th>Conversation</th><th>Task</th><th>Began</th><th>Took</th><th>Ended</th></tr></thead>
    <tbody>${last.map((span) => html`<tr><th>${names.get(span.conversation_id)}</th><td>${span.kind}</td><td>${clock(span.start)}</td>
      <td>${span.end ? lasted(span.end - span.start) : app.cards.has(app.route.session ?? "") ? "still runs" : "ended with its process"}</td><td>${span.ending ?? ""}</td></tr>`)}</tbody></table>`;
}

/** Go to the moment that is nearest to this time. @param {Array<{n: number, at: number}>} order @param {number} at */
function goTo(order, at) {
  const nearest = order.reduce((best, one) => (Math.abs(one.at - at) < Math.abs(best.at - at) ? one : best), order[0] ?? { n: 1, at });
  app.go({ n: String(nearest.n) });
}

/** A time of day. @param {number} seconds */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
