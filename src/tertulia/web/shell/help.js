// The keys, in a dialog.

import { html, useEffect, useRef } from "../parts/html.js";
import { app } from "../app_state.js";
import { KEY_LIST } from "./keys.js";

/** Shown with `?`, as long as it is there. */
export function Help() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    dialog.current?.showModal();
    return () => dialog.current?.close();
  }, []);
  return html`<dialog class="help" ref=${dialog} aria-label="Keys" onClose=${() => app.setHelping(false)}>
    <h2>Keys</h2>
    <dl>${KEY_LIST.map(([keys, meaning]) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
    <form method="dialog"><button type="button" class="primary" onClick=${() => app.setHelping(false)}>Close</button></form>
  </dialog>`;
}
