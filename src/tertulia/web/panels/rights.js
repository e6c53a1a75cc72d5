// What a conversation may do: asked, given, because, set by; and what would happen to a command.

import { namesOf, nameOf, setterText } from "../board/text.js";
import { classes, html, useState } from "../parts/html.js";
import { useAnswer } from "../parts/answer.js";
import { useTopics } from "../app_state.js";

/** @typedef {import("../link/session_feed.js").SessionFeed} SessionFeed */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").ExplainedRight} ExplainedRight */

/** @type {Record<string, string>} */
const LABELS = {
  sandbox: "sandbox", approval_policy: "approval", network: "network", writable_roots: "writes", storage_policy: "storage", allow_git: "git",
  include_conv_tools: "delegates", include_apply_patch_tool: "patches", include_plan_tool: "plans", tools_web_search_request: "web search", include_fetch_tool: "fetches",
  shell_mode: "shell", mcp_tool_allowlist: "MCP tools", visibility: "sees",
  on_restart: "after a crash", limits: "limits",
};
/** The text for a right whose value names nothing. @type {Record<string, string>} */
const ALL = { writable_roots: "the workspace", mcp_tool_allowlist: "all" };
/** @type {Record<string, string>} */
const VERDICTS = { run: "It runs without a question.", ask: "It asks you first.", deny: "No." };

/** @param {string} field @param {any} value @returns {string} */
export function valueText(field, value) {
  if (value === null || value === undefined) return ALL[field] ?? "as usual";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (typeof value !== "object") return String(value);
  const entries = Object.entries(value);
  if (field === "limits") return `${entries.filter(([, limit]) => limit !== null).length} of ${entries.length} set`;
  return entries.map(([name, part]) => `${name.replaceAll("_", " ")} ${valueText("", part)}`).join(", ");
}

/** @param {{feed: SessionFeed | null, view: ConversationView | null}} props */
export function Rights({ feed, view }) {
  useTopics(feed ? `s/${feed.sessionId}/tree` : "tree");
  // Rights change between tasks, and a chain that waits may narrow them.
  const version = `${view?.task_id} ${view?.caller_id} ${view?.cells.length}`;
  const where = feed && view ? { session_id: feed.sessionId, conversation_id: view.id } : null;
  const { answer, error } = useAnswer("rights/explain", where, version);
  if (!feed || !view || !where) return html`<p class="empty">Choose a conversation.</p>`;
  if (error) return html`<p class="bad">${error}</p>`;
  const order = Object.keys(LABELS);
  const place = (/** @type {ExplainedRight} */ right) => (order.indexOf(right.field) + 1 || order.length + 1);
  const rights = /** @type {ExplainedRight[]} */ ([...(answer?.rights ?? [])]).sort((a, b) => place(a) - place(b));
  const names = feed.board ? namesOf(feed.board) : String;
  return html`<h2 class="lead">What ${nameOf(view, feed.board?.root_id)} may do</h2>
    <${TryCommand} where=${where} names=${names} />
    <table class="facts-table"><thead><tr><th scope="col">right</th><th scope="col">asked</th><th scope="col">given</th><th scope="col">because</th></tr></thead>
      <tbody>${rights.map((right) => html`<${Right} key=${right.field} right=${right} names=${names} />`)}</tbody>
    </table>`;
}

/** @param {string} setBy @param {(id: string) => string} names */
function setter(setBy, names) {
  return setBy.startsWith("ancestor:") ? `the conversation “${names(setBy.slice(9))}” above it` : setterText(setBy);
}

/** What set a value: the place where a person can change it, if there is one. @param {ExplainedRight} right @param {(id: string) => string} names */
function setByText(right, names) {
  if (right.set_by === "session" && right.source === "default") return "default";
  const source = right.source && right.source !== "default" ? `, ${right.source}` : "";
  return `set by ${setter(right.set_by, names)}${source}`;
}

/** @param {{right: ExplainedRight, names: (id: string) => string}} props */
function Right({ right, names }) {
  const isCut = right.asked !== null && right.asked !== undefined;
  const isNarrower = right.now !== null && right.now !== undefined;
  return html`<tr class=${classes(isCut && "cut")}>
    <th scope="row">${LABELS[right.field] ?? right.field.replaceAll("_", " ")}</th>
    <td>${isCut ? valueText(right.field, right.asked) : html`<span class="dim">–</span>`}</td>
    <td>${valueText(right.field, right.value)}${isNarrower && html`<div class="warn">now ${valueText(right.field, right.now)}: a conversation that waits for its answer may do less</div>`}</td>
    <td class=${isCut ? "" : "dim"}>${isCut ? `${setter(right.set_by, names)} allows no more` : setByText(right, names)}</td>
  </tr>`;
}

/** Asks what would happen, without doing it. @param {{where: Record<string, string>, names: (id: string) => string}} props */
function TryCommand({ where, names }) {
  const [command, setCommand] = useState("");
  const [tried, setTried] = useState("");
  const { answer, error } = useAnswer("rights/explain", tried ? { ...where, command: tried } : null);
  const action = tried ? answer?.action : null;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setTried(command.trim());
  };
  return html`<form class="try" onSubmit=${submit}>
    <label for="try-command">What would happen to this command?</label>
    <div class="try-row"><input id="try-command" type="text" placeholder="rm -rf build" value=${command} onInput=${(/** @type {any} */ event) => setCommand(event.target.value)} /><button type="submit">Explain</button></div>
    <div role="status">
      ${error && tried && html`<p class="bad">${error}</p>`}
      ${action && html`<div class=${`verdict ${action.verdict}`}><strong>${VERDICTS[action.verdict]}</strong> Because ${action.because}, set by ${setter(action.set_by, names)}.
        ${action.sandbox && html`<div class="dim">It would run in: ${action.sandbox}</div>`}<div class="dim">Nothing was run, and nothing was granted.</div></div>`}
    </div>
  </form>`;
}
