// What the session has used so far.

import { dollars, grouped } from "../board/text.js";
import { html } from "../parts/html.js";
import { useTopics } from "../app_state.js";

/** @param {{feed: import("../link/session_feed.js").SessionFeed}} props */
export function Totals({ feed }) {
  useTopics(`s/${feed.sessionId}/totals`);
  const board = feed.board;
  if (!board || !board.input_tokens) return null;
  const title = `${grouped(board.input_tokens)} tokens in, ${grouped(board.cached_input_tokens)} of them cached, ${grouped(board.output_tokens)} out`;
  return html`<span class="totals dim" title=${title}>${grouped(board.input_tokens + board.output_tokens)} tokens${board.cost_usd !== null ? ` · ${dollars(board.cost_usd)}` : ""}</span>`;
}
