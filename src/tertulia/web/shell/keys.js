// The keys of the page. They do nothing while a person types, and none of them answers a question: `y` and `n` belong to
// the card that has the focus.

import { app } from "../app_state.js";
import { stepConversation } from "./tree.js";

const SECOND_KEY_MS = 1_500;

/** @param {KeyboardEvent} event */
function isTyping(event) {
  const at = /** @type {HTMLElement} */ (event.target);
  return at.matches?.("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey;
}

const focusApprovals = () => {
  app.go({ panel: "approvals", page: "panel" });
  requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(".card") ?? document.getElementById("panel"))?.focus()));
};

/** @type {Record<string, () => void>} */
const KEYS = {
  j: () => stepConversation(1),
  k: () => stepConversation(-1),
  w: () => app.setWeave(!app.weave),
  "/": () => app.setFinding(true),
  "?": () => app.setHelping(true),
  "g a": focusApprovals,
  "g d": focusApprovals,
  "g t": () => focusOn("transcript", ".transcript"),
  "g c": () => focusOn("transcript", "#composer"),
  Escape: () => app.setFinding(false),
};

/** @param {string} page @param {string} selector */
function focusOn(page, selector) {
  app.go({ page });
  requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(selector))?.focus());
}

/** Listen to keys from now on. */
export function listenToKeys() {
  let first = "";
  let at = 0;
  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || event.defaultPrevented) return;
    const combined = first && event.timeStamp - at < SECOND_KEY_MS ? `${first} ${event.key}` : event.key;
    first = event.key === "g" ? "g" : "";
    at = event.timeStamp;
    const act = KEYS[combined];
    // A dialog that is open has its keys to itself.
    if (!act || event.repeat || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    act();
  });
}
