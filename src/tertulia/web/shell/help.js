// The keys, in a dialog.

import { html, useEffect, useRef } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { KEY_LIST } from "./keys.js";

/** Shown with `?`. */
export function Help() {
  useTopics("help");
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const box = dialog.current;
    if (app.helping && box && !box.open) box.showModal();
    else if (!app.helping && box?.open) box.close();
  });
  return html`<dialog class="help" ref=${dialog} aria-label="Keys" onClose=${() => app.setHelping(false)}>
    <h2>Keys</h2>
    <dl>${KEY_LIST.map(([keys, meaning]) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
    <form method="dialog"><button type="button" class="primary" onClick=${() => app.setHelping(false)}>Close</button></form>
  </dialog>`;
}
