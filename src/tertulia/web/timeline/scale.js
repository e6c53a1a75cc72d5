// Where a time stands on the time line: pauses are folded to a narrow gap, so that what happened has the room.

const PAUSE_PX = 26;
const SHORTEST_S = 0.05;

/** @typedef {{start: number, end: number}} Range */

/** A scale from seconds to pixels and back, for one range of time. */
export class Scale {
  /** @param {Range} range @param {Range[]} pauses @param {number} width */
  constructor(range, pauses, width) {
    this.range = range;
    this.width = width;
    this.pauses = pauses.filter((pause) => pause.end > range.start && pause.start < range.end)
      .map((pause) => ({ start: Math.max(pause.start, range.start), end: Math.min(pause.end, range.end) }));
    const folded = this.pauses.reduce((sum, pause) => sum + pause.end - pause.start, 0);
    const busy = Math.max(SHORTEST_S, range.end - range.start - folded);
    this.perSecond = Math.max(10, width - PAUSE_PX * this.pauses.length) / busy;
  }

  /** @param {number} at @returns {number} */
  x(at) {
    let [x, from] = [0, this.range.start];
    for (const pause of this.pauses) {
      if (at <= pause.start) break;
      x += (pause.start - from) * this.perSecond;
      if (at < pause.end) return x + (PAUSE_PX * (at - pause.start)) / (pause.end - pause.start);
      x += PAUSE_PX;
      from = pause.end;
    }
    return x + (at - from) * this.perSecond;
  }

  /** @param {number} x @returns {number} */
  at(x) {
    let from = this.range.start;
    for (const pause of this.pauses) {
      const busy = (pause.start - from) * this.perSecond;
      if (x <= busy) break;
      x -= busy;
      if (x < PAUSE_PX) return pause.start + ((pause.end - pause.start) * x) / PAUSE_PX;
      x -= PAUSE_PX;
      from = pause.end;
    }
    return from + x / this.perSecond;
  }

  /** Whether any of this time is in sight. @param {number} start @param {number} end */
  shows(start, end) {
    return end >= this.range.start && start <= this.range.end;
  }
}

/** Marks that would lie on one another become one, with their number. @template {{at: number}} T
 * @param {T[]} marks @param {Scale} scale @param {number} [apart] pixels @returns {Array<{x: number, first: T, count: number}>} */
export function gathered(marks, scale, apart = 7) {
  /** @type {Array<{x: number, first: T, count: number}>} */
  const groups = [];
  for (const mark of marks) {
    if (!scale.shows(mark.at, mark.at)) continue;
    const x = scale.x(mark.at);
    const last = groups[groups.length - 1];
    if (last && x - last.x < apart) last.count += 1;
    else groups.push({ x, first: mark, count: 1 });
  }
  return groups;
}

/** A length of time in four characters. @param {number} seconds */
export function briefly(seconds) {
  if (seconds < 3_600) return `${Math.round(seconds / 60)}m`;
  return seconds < 86_400 ? `${Math.round(seconds / 3_600)}h` : `${Math.round(seconds / 86_400)}d`;
}

/** A length of time, short. @param {number} seconds */
export function lasted(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}
