// A line above the transcript where a session is not followed: it is gone, loads, or the server is away.

import { html } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { lazy } from "../parts/lazy.js";

const StoredActs = lazy(async () => (await import("./stored_acts.js")).StoredActs);

/** Why a record is without texts. @type {Record<string, string>} */
const NOT_STORED = {
  headers_only: "What was said is not stored: its storage policy is headers_only.",
  none: "What was said and done is not stored: its storage policy is none.",
  expired: "What was said is not stored any more: its time was over.",
};

/** @param {{feed: import("../link/session_feed.js").SessionFeed}} props */
export function SessionBanner({ feed }) {
  useTopics("link", `s/${feed.sessionId}`);
  if (app.link.state !== "open") {
    return html`<div class="banner warning" role="status">The server is away. What you see is how it was; it goes on by itself when the server is back.</div>`;
  }
  if (feed.state === "gone" || feed.state === "stored") {
    return html`<div class="banner warning" role="status">
      This session does not run. ${feed.state === "stored" ? "This is its record. " : ""} ${NOT_STORED[feed.notStored] ?? ""}
      <${StoredActs} feed=${feed} />
    </div>`;
  }
  if (feed.state === "failed") return html`<div class="banner error" role="alert">${feed.error}</div>`;
  if (NOT_STORED[feed.notStored]) return html`<div class="banner warning" role="status">${NOT_STORED[feed.notStored]}</div>`;
  return feed.state === "loading" ? html`<div class="banner dim" role="status">Loading…</div>` : null;
}
