// What stands there instead of the page where the server does not let it in.

import { html } from "../parts/html.js";

/** @param {{state: string}} props */
export function Refused({ state }) {
  return html`<main class="welcome refused">
    <h1>Tertulia</h1>
    <h2>${state === "no_token" ? "This page needs its key" : "The server refuses this key"}</h2>
    <p>
      ${state === "no_token"
        ? "The address that you opened has none. "
        : "It is not, or no longer, the key of the server that runs here. "}
      Open the page with <code>tertulia dashboard</code>, or with the whole address that <code>tertulia serve</code> prints at a terminal.
    </p>
  </main>`;
}
