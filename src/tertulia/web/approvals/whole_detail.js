// All of what a request is about. Its event has up to 64 KiB; the rest is fetched before a yes is offered.

import { html, useEffect, useState } from "../parts/html.js";
import { DiffLines, FileCounts, filesOf } from "../parts/diff.js";
import { counted } from "../board/text.js";
import { app } from "../app_state.js";

/** @typedef {import("../types.js").ApprovalRequest} ApprovalRequest */

const BAR = "│ ";

/** @param {{feed: any, request: ApprovalRequest, whole: () => void}} props */
export function WholeDetail({ feed, request, whole }) {
  const [detail, setDetail] = useState(request.detail);
  const [missing, setMissing] = useState(request.hidden ?? 0);
  useEffect(() => {
    if (!request.hidden) return;
    void app.attempt(async () => {
      setDetail(await fetchDetail(feed.sessionId, request.approval_id));
      setMissing(0);
      whole();
    });
  }, []);
  return html`<div class="detail">
    ${missing > 0 && html`<p class="warn" role="status">${counted(missing, "character")} in the middle are not shown yet.</p>`}
    ${request.kind === "patch" ? html`<${PatchDetail} request=${request} detail=${detail} />` : html`<${Lines} request=${request} detail=${detail} />`}
  </div>`;
}

/** @param {string} session_id @param {string} approval_id */
async function fetchDetail(session_id, approval_id) {
  let text = "";
  /** @type {number | null | undefined} */
  let offset = 0;
  while (offset !== null && offset !== undefined) {
    /** @type {any} */
    const answer = await app.link.call("approval/get", { session_id, approval_id, part: "detail", offset });
    text += answer.text;
    offset = answer.next_offset;
  }
  return text;
}

/** Lines from outside begin with a bar, except a command at the beginning; those that the facts below repeat are left out.
 * @param {{request: ApprovalRequest, detail: string}} props */
function Lines({ request, detail }) {
  const own = new Set([`in ${request.cwd}`, "The patch:"]);
  const lines = detail.split("\n");
  const isCommand = (request.kind === "exec" || request.kind === "escalation") && lines[0] === request.command;
  return html`<pre class="request-text" tabindex="0" aria-label="All of what is asked">${lines.map((line, index) => {
    if (own.has(line)) return null;
    if (index === 0 && isCommand) return html`<span class="command-line">${"$ "}${line}${"\n"}</span>`;
    return line.startsWith(BAR.trim()) ? html`<span>${line}${"\n"}</span>` : html`<span class="dim">${line}${"\n"}</span>`;
  })}</pre>`;
}

/** A patch as files; every line of the request that is not of the patch stands above it.
 * @param {{request: ApprovalRequest, detail: string}} props */
function PatchDetail({ request, detail }) {
  const lines = detail.split("\n");
  const start = lines.findIndex((line) => /^│ ?\*\*\* |^│ ?(---|diff) /.test(line));
  const barred = lines.slice(start).every((line) => line.startsWith("│") || line === "");
  const files = start >= 0 && barred ? filesOf(lines.slice(start).map((line) => line.replace(/^│ ?/, "")).join("\n")) : [];
  if (!files.length) return html`<${Lines} request=${request} detail=${detail} />`;
  const head = lines.slice(0, start).filter((line) => line && line !== "The patch:" && line !== `in ${request.cwd}`);
  const counts = new Map((request.files ?? []).map((file) => [file.path, file]));
  return html`${head.length > 0 && html`<pre class="request-text">${head.join("\n")}</pre>`}
    ${files.map((file) => {
      const known = counts.get(file.path);
      return html`<details class="diff" open key=${file.path}>
        <summary><${FileCounts} path=${file.path} kind=${known?.kind ?? file.kind} added=${known?.added ?? null} removed=${known?.removed ?? null} /></summary>
        ${file.lines.length > 0 && html`<${DiffLines} lines=${file.lines} whole />`}
      </details>`;
    })}`;
}
