// The MCP servers of a session: state, tools, how they do, who uses them, what is withheld and why.

import { age, counted, namesOf } from "../board/text.js";
import { html } from "../parts/html.js";
import { useAnswer } from "../parts/answer.js";
import { useNow } from "../parts/now.js";
import { app, useTopics } from "../app_state.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */

/** @type {Record<string, [string, string]>} */
const LOOKS = { ready: ["●", "ok"], starting: ["◐", "warn"], failed: ["✗", "bad"], untrusted: ["!", "warn"], disabled: ["○", "dim"], stopped: ["○", "dim"] };
const FRESH_MS = 5_000;

/** @param {{feed: SessionFeed | null}} props */
export function McpServers({ feed }) {
  useTopics(feed ? `s/${feed.sessionId}/servers` : "tree");
  const turn = Math.floor(useNow(Boolean(feed?.board?.servers.size)) / FRESH_MS);
  const states = [...(feed?.board?.servers.values() ?? [])].map((server) => `${server.name} ${server.status}`).join();
  const { answer, error } = useAnswer("mcp/status", feed && { session_id: feed.sessionId }, `${states} ${turn}`);
  if (error) return html`<p class="bad">${error}</p>`;
  if (!feed || !answer) return null;
  if (!answer.servers.length) return html`<div class="empty calm"><p>This session uses no MCP server.</p><p class="dim">They are named in config.toml, under [mcp_servers.NAME].</p></div>`;
  const refresh = () => app.attempt(async () => void (await app.link.call("mcp/refresh", { session_id: feed.sessionId })));
  return html`<div class="server-head lead"><h2>${counted(answer.servers.length, "MCP server")}</h2><span class="space"></span><button type="button" class="quiet" onClick=${refresh}>Try again</button></div>
    ${answer.servers.map((/** @type {any} */ server) => html`<${Server} key=${server.name} server=${server} feed=${feed} />`)}`;
}

/** @param {{server: any, feed: SessionFeed}} props */
function Server({ server, feed }) {
  const [mark, look] = LOOKS[server.status] ?? ["○", "dim"];
  const names = feed.board ? namesOf(feed.board) : String;
  const milliseconds = (/** @type {number | null | undefined} */ value) => (value === null || value === undefined ? null : `${Math.round(value)} ms`);
  const facts = [
    ["tools", server.tools],
    ["protocol", server.protocol_version],
    ["last listing", milliseconds(server.latency_ms)],
    ["half of calls", milliseconds(server.p50_ms)],
    ["95 of 100", milliseconds(server.p95_ms)],
    ["under way", server.in_flight],
    ["waiting", server.waiting],
    ["restarts", server.restarts],
    ["used by", server.users?.length ? server.users.map(names).join(", ") : null],
    ["last error", server.last_error_at && age(server.last_error_at, Date.now())],
  ].filter(([, value]) => value !== null && value !== undefined);
  return html`<section class="server" aria-label=${`MCP server ${server.name}`}>
    <div class="server-head"><span class=${look} aria-hidden="true">${mark}</span><span class="name">${server.name}</span><span class=${look}>${server.status}</span></div>
    ${server.error && html`<p class="bad">${server.error}</p>`}
    <dl class="facts-list">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd class="number">${value}</dd></div>`)}</dl>
    ${server.withheld?.length > 0 && html`<div class="tools warn">withheld: <ul>${server.withheld.map((/** @type {any} */ one) => html`<li>${one.tool ?? one}${one.because ? `: ${one.because}` : ""}</li>`)}</ul></div>`}
  </section>`;
}
