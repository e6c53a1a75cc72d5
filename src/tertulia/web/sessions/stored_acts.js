// What can be done with a session that does not run: bring it back, replay it, go on in a copy, delete it.

import { html, useState } from "../parts/html.js";
import { app } from "../app_state.js";

/** @param {{feed: import("../link/session_feed.js").SessionFeed}} props */
export function StoredActs({ feed }) {
  const session_id = feed.sessionId;
  const bringBack = () =>
    app.attempt(async () => {
      await app.link.call("session/resume", { session_id });
      await feed.load();
    });
  return html`<span class="acts">
    <button type="button" onClick=${bringBack}>Bring it back</button>
    <button type="button" onClick=${() => app.go({ n: "1" })}>Replay it</button>
    <button type="button" onClick=${() => forkAt(session_id)}>Go on in a copy</button>
    <${DeleteSession} id=${session_id} name="" gone=${() => app.go({ session: null })} />
  </span>`;
}

/** A copy of the session up to this record, else of all of it, running. @param {string} session_id @param {number} [n] */
export function forkAt(session_id, n) {
  return app.make(async () => {
    const fork = await app.link.call("record/fork", { session_id, ...(n ? { n } : {}) });
    await app.link.call("session/resume", fork);
    app.go({ session: fork.session_id, conversation: null, n: null, page: "transcript" });
    app.say("This is a copy that goes on from there; the session that you looked at stays as it is.");
  });
}

/** Asks, and deletes then. @param {{id: string, name: string, gone: () => void}} props `name`: of the session, for screen readers; "" where it is clear */
export function DeleteSession({ id, name, gone }) {
  const [asked, setAsked] = useState(false);
  const remove = () =>
    app.attempt(async () => {
      setAsked(false);
      await app.link.call("record/delete", { session_id: id });
      app.forget(id);
      app.say("The session is deleted.");
      gone();
    });
  const about = name && `: ${name}`;
  if (!asked) return html`<button type="button" class="quiet" aria-label=${`Delete…${about}`} onClick=${() => setAsked(true)}>Delete…</button>`;
  return html`<span class="acts" role="group" aria-label=${`Delete for good?${about}`}>Delete it for good?
    <button type="button" class="danger" onClick=${remove}>Delete</button>
    <button type="button" autofocus onClick=${() => setAsked(false)}>Keep it</button>
  </span>`;
}
