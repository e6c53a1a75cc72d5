// Says to views what they must draw again: at most once a frame, and less often for what changes all the time.

/** @type {Array<[RegExp, number]>} */
const SLOWER = [
  [/tree$/, 120],
  [/^sessions$/, 250],
  [/totals$/, 500],
];
const FRAME_MS = 33;
const HIDDEN_MS = 500;

/** Listeners by topic. */
export class Topics {
  constructor() {
    /** @type {Map<string, Set<() => void>>} */
    this.listeners = new Map();
    /** @type {Set<string>} */
    this.touched = new Set();
    /** @type {Map<string, number>} */
    this.last = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.inFrame = false;
  }

  /** Call back when one of these was touched, until the returned function is called.
   * @param {readonly string[]} topics @param {() => void} listener */
  on(topics, listener) {
    for (const topic of topics) {
      const listeners = this.listeners.get(topic);
      if (listeners) listeners.add(listener);
      else this.listeners.set(topic, new Set([listener]));
    }
    return () => {
      for (const topic of topics) {
        const listeners = this.listeners.get(topic);
        listeners?.delete(listener);
        if (listeners?.size === 0) this.listeners.delete(topic);
      }
    };
  }

  /** Something about these has changed. @param {...string} topics */
  touch(...topics) {
    for (const topic of topics) if (this.listeners.has(topic)) this.touched.add(topic);
    if (this.touched.size) this.plan(0);
  }

  /** What was touched now waits for no slower topic that was touched before. @param {number} wait */
  plan(wait) {
    if (this.inFrame || (wait && this.timer)) return;
    const flush = () => this.flush();
    if (wait || document.hidden) this.timer ??= setTimeout(flush, document.hidden ? HIDDEN_MS : wait);
    else this.inFrame = Boolean(requestAnimationFrame(flush));
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.inFrame = false;
    const now = performance.now();
    const due = [...this.touched].filter((topic) => now - (this.last.get(topic) ?? -Infinity) >= interval(topic));
    const listeners = new Set(due.flatMap((topic) => [...(this.listeners.get(topic) ?? [])]));
    for (const topic of due) {
      this.touched.delete(topic);
      this.last.set(topic, now);
    }
    for (const listener of listeners) listener();
    if (this.touched.size) this.plan(FRAME_MS);
  }
}

/** @param {string} topic */
const interval = (topic) => SLOWER.find(([pattern]) => pattern.test(topic))?.[1] ?? FRAME_MS - 2;
