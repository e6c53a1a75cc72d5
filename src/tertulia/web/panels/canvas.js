// What the agents of a session drew, each in a frame that can do nothing but show it.

import { age, namesOf } from "../board/text.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { useAnswer } from "../parts/answer.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */

const MAX_HEIGHT_PX = 4_000;

/** @param {{feed: SessionFeed | null}} props */
export function CanvasGrid({ feed }) {
  useTopics(feed ? `s/${feed.sessionId}/tree` : "tree");
  // A canvas that changes leaves a notice in its conversation.
  const changes = [...(feed?.board?.conversations.values() ?? [])].map((view) => view.cells.findLast((cell) => cell.kind === "notice" && cell.text.startsWith("canvas "))?.key ?? "");
  const { answer, error } = useAnswer("canvas/list", feed && { session_id: feed.sessionId }, changes.join());
  if (error) return html`<p class="bad">${error}</p>`;
  if (!feed || !answer) return null;
  if (!answer.canvases.length) return html`<div class="empty calm"><p>No agent of this session has drawn anything.</p><p class="dim">An agent draws with the tool canvas_update.</p></div>`;
  return html`<div class="canvases">${answer.canvases.map((/** @type {any} */ info) => html`<${Canvas} key=${info.conversation_id} feed=${feed} info=${info} />`)}</div>`;
}

/** @param {{feed: SessionFeed, info: import("../types.js").CanvasInfo}} props */
function Canvas({ feed, info }) {
  const { answer } = useAnswer("canvas/get", { session_id: feed.sessionId, conversation_id: info.conversation_id }, String(info.revision));
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const owner = feed.board ? namesOf(feed.board)(info.conversation_id) : "";
  const title = info.title || "untitled";
  return html`<section class="canvas" ref=${box} aria-label=${`Canvas ${title} of ${owner}`}>
    <div class="canvas-head">
      <strong>${title}</strong><span class="dim">${owner}, revision ${info.revision}, ${age(info.updated_at, Date.now())}</span><span class="space"></span>
      <button type="button" class="quiet" onClick=${() => app.attempt(async () => void (await box.current?.requestFullscreen()))}>Full screen</button>
    </div>
    ${answer && html`<${Frame} content=${answer.html} title=${title} />`}
  </section>`;
}

/** A frame with a policy of its own; the drawing comes into it by a message. @param {{content: string, title: string}} props */
export function Frame({ content, title }) {
  const frame = useRef(/** @type {HTMLIFrameElement | null} */ (null));
  const [ready, setReady] = useState(false);
  useEffect(() => {
    const heard = (/** @type {MessageEvent} */ event) => {
      if (event.source !== frame.current?.contentWindow) return;
      if (event.data?.ready === true) setReady(true);
      const height = Number(event.data?.height);
      if (height > 0 && frame.current) frame.current.style.height = `${Math.min(height, MAX_HEIGHT_PX)}px`;
    };
    addEventListener("message", heard);
    return () => removeEventListener("message", heard);
  }, []);
  useEffect(() => {
    // The frame has no origin of its own, so none can be named here; only its window gets the message.
    if (ready) frame.current?.contentWindow?.postMessage({ html: content }, "*");
  }, [ready, content]);
  return html`<iframe ref=${frame} src="/frame.html" sandbox="allow-scripts" title=${`Canvas ${title}`} referrerpolicy="no-referrer"></iframe>`;
}
