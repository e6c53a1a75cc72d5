// A question of an MCP server to a person: a form made from its schema, or a page to visit.

import { namesOf } from "../board/text.js";
import { html, useState } from "../parts/html.js";
import { cardKey, useResolve } from "./answering.js";

/** @typedef {Record<string, any>} Json */

/** @param {{feed: any, cell: import("../types.js").ElicitationCell, session: string | null}} props */
export function ElicitationCard({ feed, cell, session }) {
  const { request } = cell;
  const fields = Object.entries(/** @type {Json} */ (request.schema).properties ?? {});
  const required = new Set(/** @type {Json} */ (request.schema).required ?? []);
  const [values, setValues] = useState(/** @type {Json} */ (Object.fromEntries(fields.map(([name, field]) => [name, field.default ?? first(field)]))));
  const { busy, resolve } = useResolve(feed, request.elicitation_id);
  const content = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined));
  const missing = fields.filter(([name]) => required.has(name) && !(name in content)).map(([name]) => name);
  const send = () => void resolve(request.url ? { decision: "allow" } : { decision: "allow", content });
  const decline = () => void resolve({ decision: "deny" });
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (cardKey(event) === "n") decline();
  };
  const chain = (request.chain ?? []).map(namesOf(feed.board)).join(" › ");
  return html`<article class="card" tabindex="0" aria-label=${`The MCP server ${request.server} asks you`} onKeyDown=${pressed}>
    <header>
      ${session !== null && html`<div class="dim whose-session">in ${session}</div>`}
      <div class="card-title"><span class="who">${chain}</span> <span class="act">the MCP server ${request.server} asks you</span></div>
    </header>
    <p class="server-words">${request.message}</p>
    ${request.url
      ? html`<p class="dim">It wants you to visit this address. Open it only if you know it:</p><pre class="request-text">${request.url}</pre>`
      : fields.map(([name, field]) => html`<${Field} key=${name} id=${`${request.elicitation_id}-${name}`} name=${name} field=${field} required=${required.has(name)}
          value=${values[name]} change=${(/** @type {any} */ value) => setValues({ ...values, [name]: value })} />`)}
    <div class="card-buttons">
      <button type="button" class="yes-button" disabled=${busy || (!request.url && missing.length > 0)} onClick=${send}>${request.url ? "I have visited it" : "Send"}</button>
      <button type="button" class="no-button" disabled=${busy} onClick=${decline}>Decline</button>
    </div>
  </article>`;
}

/** @param {Json} field */
const first = (field) => (field.type === "boolean" ? false : "");

/** @param {any} props */
function Field({ id, name, field, required, value, change }) {
  const label = `${field.title || name}${required ? "" : " (optional)"}`;
  const choices = field.enum ?? field.oneOf?.map((/** @type {Json} */ one) => one.const);
  const number = field.type === "number" || field.type === "integer";
  if (field.type === "boolean") {
    return html`<label class="field check"><input type="checkbox" checked=${Boolean(value)} onChange=${(/** @type {any} */ event) => change(event.target.checked)} /> ${label}</label>`;
  }
  const typed = (/** @type {any} */ event) => change(number && event.target.value !== "" ? Number(event.target.value) : event.target.value);
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${field.description && html`<span class="dim">${field.description}</span>`}
    ${choices
      ? html`<select id=${id} value=${value} onChange=${typed}><option value="">choose</option>${choices.map((/** @type {string} */ choice, /** @type {number} */ index) => html`<option value=${choice}>${field.enumNames?.[index] ?? field.oneOf?.[index]?.title ?? choice}</option>`)}</select>`
      : html`<input id=${id} type=${number ? "number" : "text"} value=${value} onInput=${typed} />`}
  </div>`;
}
