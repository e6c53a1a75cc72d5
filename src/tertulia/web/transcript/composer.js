// Where a person writes to a conversation: send, steer what runs, queue, stop, take back what waits.

import { stateOf } from "../board/conversation_view.js";
import { nameOf } from "../board/text.js";
import { html, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */
/** @typedef {import("../types.js").ConversationView} ConversationView */

const MAX_HEIGHT_PX = 220;

/** What was typed and not sent, by conversation. @type {Map<string, string>} */
const drafts = new Map();

/** @param {{feed: SessionFeed, view: ConversationView}} props */
export function Composer({ feed, view }) {
  useTopics(`s/${feed.sessionId}/tree`, "link");
  const [text, setDraft] = useState(drafts.get(view.id) ?? "");
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const setText = (/** @type {string} */ value) => {
    drafts.set(view.id, value);
    setDraft(value);
    requestAnimationFrame(() => box.current && fitHeight(box.current));
  };
  const state = stateOf(view);
  const busy = view.task_id !== null;
  const canSteer = busy && !view.waits;
  const where = { session_id: feed.sessionId, conversation_id: view.id };
  const submit = (/** @type {"send" | "steer"} */ how) =>
    app.attempt(async () => {
      const sent = text.trim();
      if (!sent) return;
      setText("");
      try {
        if (how === "steer") await app.link.call("conversation/steer", { ...where, text: sent });
        else await app.link.call("conversation/message", { ...where, text: sent, detach: true });
      } catch (error) {
        setText(sent);
        throw error;
      }
    });
  const stop = () => app.attempt(async () => void (await app.link.call("conversation/interrupt", { ...where, scope: "chain" })));
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void submit(canSteer ? "steer" : "send");
  };
  const name = nameOf(view, feed.board?.root_id);
  const away = app.link.state !== "open" || feed.state !== "live";
  if (state === "closed") return html`<div class="composer closed dim">This conversation is closed.</div>`;
  return html`<form class="composer" aria-label=${`Write to ${name}`} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <${Waiting} feed=${feed} view=${view} restore=${(/** @type {string} */ back) => setText(text ? `${text}\n${back}` : back)} />
    <div class="compose-row">
      <textarea ref=${box} id="composer" rows="1" aria-label=${`Message to ${name}`} value=${text}
        placeholder=${canSteer ? `Steer ${name} while it works` : `Say something to ${name}`}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${pressed}></textarea>
      <div class="compose-buttons">
        ${canSteer && html`<button type="button" class="primary" disabled=${away || !text.trim()} onClick=${() => submit("steer")}>Steer</button>`}
        <button type="button" class=${canSteer ? "" : "primary"} disabled=${away || !text.trim()} onClick=${() => submit("send")}>${busy ? "Queue" : "Send"}</button>
        ${busy && html`<button type="button" class="danger" disabled=${away} onClick=${stop}>Stop</button>`}
      </div>
    </div>
  </form>`;
}

/** @param {HTMLTextAreaElement} box */
function fitHeight(box) {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, MAX_HEIGHT_PX)}px`;
}

/** Messages whose tasks have not begun. @param {{feed: SessionFeed, view: ConversationView, restore: (text: string) => void}} props */
function Waiting({ feed, view, restore }) {
  if (!view.queued.length) return null;
  const takeBack = (/** @type {string | null} */ task_id) =>
    app.attempt(async () => {
      const answer = await app.link.call("conversation/take_back", { session_id: feed.sessionId, conversation_id: view.id, task_id });
      restore(answer.text);
    });
  return html`<ul class="queued" aria-label="Messages that wait">
    ${view.queued.map((message) => html`<li key=${message.item_id}>
      <span class="dim">waits</span> <span class="preview">${message.preview}</span>
      <button type="button" class="quiet" onClick=${() => takeBack(message.task_id)}>Take back</button>
    </li>`)}
  </ul>`;
}
