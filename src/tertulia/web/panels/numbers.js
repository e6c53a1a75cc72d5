// Tokens, cost, calls and failures: of the session, of each conversation, and of the last requests one by one.

import { namesOf } from "../board/text.js";
import { useAnswer } from "../parts/answer.js";
import { html } from "../parts/html.js";
import { useTopics } from "../app_state.js";

const LAST_ROWS = 1_000;
const MOST_BARS = 60;
const [WIDE, HIGH] = [360, 90];

/** @param {{feed: any, view: import("../types.js").ConversationView | null}} props */
export function Numbers({ feed, view }) {
  useTopics("route", feed ? `s/${feed.sessionId}/totals` : "tree");
  const board = feed?.board;
  const version = `${board?.input_tokens} ${board?.output_tokens}`;
  const counts = useAnswer("metrics/get", feed && !feed.replays ? { session_id: feed.sessionId } : null, version);
  const page = useAnswer("record/page", feed ? { session_id: feed.sessionId, limit: LAST_ROWS } : null, feed?.replays ? "" : version);
  if (!board) return null;
  const own = counts.answer?.conversations.find((/** @type {any} */ one) => one.conversation_id === view?.id);
  const requests = (page.answer?.events ?? []).filter((/** @type {any} */ event) => event.type === "token_count").slice(-MOST_BARS);
  return html`<h3>Tokens and cost</h3><${Conversations} board=${board} />
    ${counts.answer?.budget && html`<p class="lead">Budget: ${budgetText(counts.answer.budget)} used.</p>`}
    ${requests.length > 0 && html`<h3>The last ${requests.length} requests</h3><${Requests} requests=${requests} />`}
    ${counts.answer && html`<${Tools} counts=${counts.answer.session} of="in all" />`}
    ${counts.answer?.conversations.length > 1 && own && html`<${Tools} counts=${own} of=${namesOf(board)(own.conversation_id)} />`}
    ${counts.error && html`<p class="dim">Calls are counted while a session runs.</p>`}`;
}

/** @param {number | null | undefined} cost */
const dollars = (cost) => (cost === null || cost === undefined ? "" : `$${cost.toFixed(cost < 1 ? 4 : 2)}`);

/** @param {any} budget */
function budgetText(budget) {
  const tokens = budget.tokens === null ? [] : [`${budget.used_tokens.toLocaleString()} of ${budget.tokens.toLocaleString()} tokens`];
  const usd = budget.usd === null ? [] : [`${dollars(budget.used_usd)} of ${dollars(budget.usd)}`];
  return [...tokens, ...usd].join(", ");
}

/** @param {{board: import("../board/board.js").Board}} props */
function Conversations({ board }) {
  const name = namesOf(board);
  const row = (/** @type {any} */ one, /** @type {string} */ title) => html`<tr><th>${title}</th>
    <td>${one.input_tokens.toLocaleString()}</td><td>${share(one.cached_input_tokens, one.input_tokens)}</td><td>${one.output_tokens.toLocaleString()}</td><td>${dollars(one.cost_usd)}</td></tr>`;
  const views = [...board.conversations.values()].filter((view) => view.input_tokens > 0);
  return html`<table class="facts-table number"><thead><tr><td></td><th>in</th><th>cached</th><th>out</th><th>cost</th></tr></thead>
    <tbody>${row(board, "all")}${views.length > 1 ? views.map((view) => row(view, name(view.id))) : null}</tbody></table>`;
}

/** @param {number} part @param {number} whole */
const share = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "");

/** @param {{requests: any[]}} props */
function Requests({ requests }) {
  const usages = requests.map((event) => event.data.usage);
  const most = Math.max(1, ...usages.map((usage) => usage.input_tokens + usage.output_tokens));
  const [step, tall] = [WIDE / usages.length, (/** @type {number} */ tokens) => (tokens * HIGH) / most];
  return html`<svg class="token-bars" viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img" aria-label=${`Tokens of the last ${usages.length} requests, ${most.toLocaleString()} at the most`}>
      ${usages.map((usage, index) => {
        const [cached, input, output] = [usage.cached_input_tokens, usage.input_tokens, usage.output_tokens].map(tall);
        const x = index * step;
        const width = Math.max(1, step - 1);
        return html`<g><title>${`${usage.input_tokens.toLocaleString()} in, ${usage.cached_input_tokens.toLocaleString()} of them cached, ${usage.output_tokens.toLocaleString()} out`}</title>
          <rect class="bar-cached" x=${x} width=${width} y=${HIGH - (cached ?? 0)} height=${cached} />
          <rect class="bar-input" x=${x} width=${width} y=${HIGH - (input ?? 0)} height=${(input ?? 0) - (cached ?? 0)} />
          <rect class="bar-output" x=${x} width=${width} y=${HIGH - (input ?? 0) - (output ?? 0)} height=${output} /></g>`;
      })}
    </svg>
    <p class="legend dim"><span class="bar-cached"></span>cached <span class="bar-input"></span>input <span class="bar-output"></span>output</p>`;
}

/** Tasks and calls of the session, or of a conversation. @param {{counts: any, of: string}} props */
function Tools({ counts, of }) {
  const tools = Object.entries(counts.tools).sort(([, a], [, b]) => b.calls - a.calls);
  const tasks = counts.tasks;
  const aborted = Object.entries(tasks.aborted ?? {}).filter(([, count]) => count > 0).map(([reason, count]) => `${count} ${reason}`);
  const percent = (/** @type {number} */ rate) => `${Math.round(100 * rate)} %`;
  return html`<h3>Tasks, ${of}</h3><p class="lead">${tasks.started} begun, ${tasks.completed} completed, ${tasks.failed} failed${aborted.length ? `, ${aborted.join(", ")}` : ""}.
      <br /><span class="dim">Of those that ended ${percent(tasks.cancel_rate)} were stopped, ${percent(tasks.failure_rate)} failed.${counts.mcp.calls ? ` Calls of MCP servers: ${counts.mcp.calls}, ${counts.mcp.mean_ms} ms each, ${counts.mcp.max_ms} ms at the most.` : ""}</span></p>
    ${tools.length > 0 && html`<h3>Calls, ${of}</h3><table class="facts-table number"><thead><tr><td></td><th>calls</th><th>failed</th><th>mean</th></tr></thead>
      <tbody>${tools.map(([name, calls]) => html`<tr><th>${name}</th><td>${calls.calls}</td><td>${calls.failures || ""}</td><td>${Math.round(calls.duration_ms / Math.max(1, calls.calls))} ms</td></tr>`)}</tbody></table>`}`;
}
