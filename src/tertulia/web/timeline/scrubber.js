// The bar of a replay: where in the session it stands, steps, playing, and the ways on from there.

import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { forkAt } from "../sessions/stored_acts.js";
import { app, useTopics } from "../app_state.js";
import { clock } from "./lanes.js";
import { lastUpTo, moments, useOutline } from "./outline.js";

/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {"record" | "request" | "task"} Step */

const LONGEST_MS = 1_500;
const SHORTEST_MS = 40;

/** @param {{feed: import("./replay_feed.js").ReplayFeed}} props */
export function Scrubber({ feed }) {
  useTopics("route", "sessions", `s/${feed.sessionId}`);
  // Of a session that goes on, the end of its record goes on too.
  const { outline, error } = useOutline(feed.sessionId, app.cards.get(feed.sessionId)?.last_active_at ?? "");
  const [step, setStep] = useState(/** @type {Step} */ ("record"));
  const [speed, setSpeed] = useState(1);
  const [playing, setPlaying] = useState(false);
  const n = Math.min(Number(app.route.n ?? 1), outline?.last_n ?? Infinity);
  const order = useMemo(() => (outline ? moments(outline) : []), [outline]);
  usePlaying(outline, n, speed, playing, () => setPlaying(false));
  useArrows((way, unit) => outline && by(way, unit ?? step));
  // A person who goes back wants to know what the model saw.
  useEffect(() => void import("../panels/prompt.js"), []);
  if (error) return html`<div class="scrubber" role="alert">${error}</div>`;
  if (!outline) return null;
  const last = outline.last_n;
  const go = (/** @type {number} */ to) => app.go({ n: String(Math.min(last, Math.max(1, to))) }, true);
  // Two keys may come between two frames: the place is what the address says by then.
  const by = (/** @type {number} */ way, /** @type {Step} */ unit) => go(stepped(outline, Number(app.route.n ?? 1), way, unit));
  const moment = lastUpTo(order, n);
  return html`<div class="scrubber" role="group" aria-label="Replay">
    <div class="scrub-row">
      <button type="button" class="quiet" onClick=${() => go(1)} aria-label="To the beginning">|‹</button>
      <button type="button" class="quiet" onClick=${() => by(-1, step)} aria-label=${`One ${step} back`}>‹</button>
      <button type="button" class="quiet" onClick=${() => setPlaying(!playing)} aria-label=${playing ? "Pause" : "Play"} aria-pressed=${playing}>${playing ? "II" : "▶"}</button>
      <button type="button" class="quiet" onClick=${() => by(1, step)} aria-label=${`One ${step} on`}>›</button>
      <button type="button" class="quiet" onClick=${() => go(last)} aria-label="To the end">›|</button>
      <input type="range" min="1" max=${last} value=${n} aria-label="Record" aria-valuetext=${`record ${n} of ${last}`} onInput=${(/** @type {any} */ event) => go(Number(event.currentTarget.value))} />
      <span class="number">${n.toLocaleString()} / ${last.toLocaleString()}</span>
      <span class="number dim scrub-clock">${moment ? clock(moment.at) : ""}</span>
    </div>
    <div class="scrub-row">
      <label class="dim">Step <select value=${step} onChange=${(/** @type {any} */ event) => setStep(event.currentTarget.value)}>
        <option value="record">record</option><option value="request">request</option><option value="task">task</option></select></label>
      <label class="dim">Speed <select value=${speed} onChange=${(/** @type {any} */ event) => setSpeed(Number(event.currentTarget.value))}>
        ${[1, 4, 16, 64].map((one) => html`<option value=${one}>${one}x</option>`)}</select></label>
      <span class="space"></span>
      <button type="button" onClick=${() => app.go({ panel: "prompt", page: "panel" })}>What the model saw</button>
      <button type="button" onClick=${() => void forkAt(feed.sessionId, n)}>Fork here</button>
      <button type="button" class="primary" onClick=${() => app.go({ n: null })}>Leave the replay</button>
    </div>
  </div>`;
}

/** The arrow keys, wherever they mean nothing else. @param {(way: number, unit: Step | null) => void} move */
function useArrows(move) {
  const newest = useRef(move);
  newest.current = move;
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const elsewhere = /** @type {Element} */ (event.target).matches?.("textarea, select, [role=tab], input:not([type=range])");
      if (!way || elsewhere || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      newest.current(way, event.altKey ? "task" : event.shiftKey ? "request" : null);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

/** The record one step from this one. @param {Outline} outline @param {number} n @param {number} way @param {Step} unit */
function stepped(outline, n, way, unit) {
  if (unit === "record") return n + way;
  const list = unit === "request" ? outline.requests.map((one) => one.n) : outline.spans.map((span) => span.first_n);
  const places = list.sort((a, b) => a - b);
  const next = way > 0 ? places.find((one) => one > n) : places.filter((one) => one < n).pop();
  return next ?? (way > 0 ? outline.last_n : 1);
}

/** Go from moment to moment, as fast as it happened, but never wait long.
 * @param {Outline | null} outline @param {number} n @param {number} speed @param {boolean} playing @param {() => void} stop */
function usePlaying(outline, n, speed, playing, stop) {
  const order = useRef(/** @type {Array<{n: number, at: number}>} */ ([]));
  useEffect(() => void (order.current = outline ? moments(outline) : []), [outline]);
  useEffect(() => {
    if (!playing || !outline) return undefined;
    const next = order.current.find((one) => one.n > n);
    if (!next) return stop();
    const gap = (next.at - (lastUpTo(order.current, n)?.at ?? next.at)) * 1000;
    const timer = setTimeout(() => app.go({ n: String(next.n) }, true), Math.max(SHORTEST_MS, Math.min(LONGEST_MS, gap) / speed));
    return () => clearTimeout(timer);
  }, [playing, n, speed, outline]);
}
