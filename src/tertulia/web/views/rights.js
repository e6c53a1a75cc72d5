// In work.

import { html } from "../parts/html.js";

/** In work. */
export const Rights = () => html`<p class="empty">In work.</p>`;
