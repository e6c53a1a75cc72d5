// The bars, marks and arrows of a time line that has too many of them for elements: painted.

import { html, useLayoutEffect, useRef } from "../parts/html.js";
import { apart, barLook, MOST_ROWS, ROW, waysInSight } from "./lanes.js";
import { gathered } from "./scale.js";

/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {import("./scale.js").Scale} Scale */

const COLOURS = ["--line", "--blue", "--violet", "--teal", "--red", "--amber", "--green", "--text", "--ground"];
/** @type {Record<string, string>} */
const BARS = { "bar-target": "--violet", "bar-continuation": "--teal" };
/** @type {Record<string, string>} */
const QUESTIONS = { yes: "--green", no: "--red" };

/** @param {{outline: Outline, rows: Array<{id: string}>, first: number, scale: Scale}} props `first`: of the rows that are painted */
export function PaintedLanes({ outline, rows, first, scale }) {
  const place = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const shown = rows.slice(first, first + MOST_ROWS);
  const [width, height] = [scale.width, shown.length * ROW];
  const scheme = `${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  useLayoutEffect(() => {
    const canvas = place.current;
    const pen = canvas?.getContext("2d");
    if (!canvas || !pen) return;
    const dense = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * dense, height * dense];
    pen.scale(dense, dense);
    const colours = coloursOf(canvas);
    shown.forEach(({ id }, index) => paintLane(pen, colours, outline, id, index * ROW, scale));
    paintArrows(pen, colours, outline, new Map(rows.map((one, index) => [one.id, index])), first, scale);
  }, [outline, rows, first, scale, scheme]);
  return html`<canvas class="lanes-canvas" ref=${place} aria-hidden="true" style=${{ top: `${first * ROW}px`, width: `${width}px`, height: `${height}px` }}></canvas>`;
}

/** The colours of the scheme that is in use. @param {HTMLElement} element @returns {Record<string, string>} */
function coloursOf(element) {
  return Object.fromEntries(COLOURS.map((name) => {
    element.style.color = `var(${name})`;
    return [name, getComputedStyle(element).color];
  }));
}

/** @param {CanvasRenderingContext2D} pen @param {Record<string, string>} colours @param {Outline} outline @param {string} id @param {number} y @param {Scale} scale */
function paintLane(pen, colours, outline, id, y, scale) {
  const fill = (/** @type {string | undefined} */ name) => (pen.fillStyle = colours[name ?? ""] ?? "");
  const middle = y + ROW / 2;
  fill("--line");
  pen.fillRect(0, middle, scale.width, 1);
  const spans = outline.spans.filter((span) => span.conversation_id === id && scale.shows(span.start, span.end ?? scale.range.end));
  for (const span of apart(spans, scale)) {
    const { x1, x2, failed } = barLook(span, scale);
    fill(failed ? "--red" : BARS[`bar-${span.kind}`] ?? "--blue");
    pen.fillRect(x1, y + 4, Math.max(2, x2 - x1), ROW - 8);
  }
  const marks = outline.marks.filter((mark) => mark.conversation_id === id);
  for (const { x } of gathered(marks.filter((mark) => mark.kind === "call"), scale)) {
    circle(pen, x, middle, 2.5);
    fill("--ground");
    pen.fill();
    pen.strokeStyle = colours["--text"] ?? "";
    pen.stroke();
  }
  for (const { x, first } of gathered(marks.filter((mark) => mark.kind !== "call"), scale, 9)) {
    fill(QUESTIONS[first.kind] ?? "--amber");
    pen.fill(new Path2D(`M${x - 5} ${y + ROW - 4} h10 l-5 -9 z`));
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} radius */
function circle(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
}

/** @param {CanvasRenderingContext2D} pen @param {Record<string, string>} colours @param {Outline} outline @param {Map<string, number>} row @param {number} first @param {Scale} scale */
function paintArrows(pen, colours, outline, row, first, scale) {
  pen.strokeStyle = colours["--text"] ?? "";
  for (const { x, y1, y2, tip, back } of waysInSight(outline, scale, row, first)) {
    const top = first * ROW;
    pen.setLineDash(back ? [3, 2] : []);
    pen.stroke(new Path2D(`M${x} ${y1 - top} L${x} ${y2 - top}`));
    pen.setLineDash([]);
    pen.stroke(new Path2D(`M${x - 3} ${y2 - top + tip} L${x} ${y2 - top} L${x + 3} ${y2 - top + tip}`));
  }
}
