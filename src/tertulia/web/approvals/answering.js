// Rules of answering: never by accident. A question can be answered only after a person could see it, by a key only while
// its card has the focus.

import { useEffect, useState } from "../parts/html.js";
import { app } from "../app_state.js";

/** How long a card must have been there. */
const SETTLE_MS = 300;

/** Whether the card has been in sight for long enough; a click that only brings the window back answers nothing. */
function useSettled() {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const wait = () => {
      setSettled(false);
      clearTimeout(timer);
      timer = setTimeout(() => setSettled(true), SETTLE_MS);
    };
    wait();
    addEventListener("focus", wait);
    return () => {
      clearTimeout(timer);
      removeEventListener("focus", wait);
    };
  }, []);
  return settled;
}

/**
 * Answers a question, once. Where another client was quicker, it says so.
 * @param {import("../link/session_feed.js").SessionFeed} feed
 * @param {string} id
 * @returns {{busy: boolean, resolve: (answer: Record<string, any>) => Promise<void>}}
 */
export function useResolve(feed, id) {
  const [sent, setSent] = useState(false);
  const busy = !useSettled() || sent;
  const resolve = async (/** @type {Record<string, any>} */ answer) => {
    if (busy) return;
    setSent(true);
    await app.attempt(async () => {
      const done = await app.link.request("approval/resolve", { session_id: feed.sessionId, approval_id: id, ...answer });
      if (!done.resolved) app.say("Another answer came first.");
      else if (done.narrowed) app.say(done.narrowed);
    });
    setSent(false);
  };
  return { busy, resolve };
}

/** A key that was pressed on the card itself, not in one of its fields. @param {KeyboardEvent} event @returns {string | null} */
export function cardKey(event) {
  const plain = !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey;
  return plain && event.target === event.currentTarget ? event.key : null;
}

/** The remaining time as `4:12`. @param {string | null | undefined} expiresAt @param {number} now */
export function timeLeft(expiresAt, now) {
  if (!expiresAt) return "";
  const seconds = Math.max(0, Math.floor((Date.parse(expiresAt) - now) / 1000));
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}
