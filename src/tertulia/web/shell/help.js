// The keys, in a dialog.

import { html, useEffect, useRef } from "../parts/html.js";
import { app } from "../app_state.js";

/** @type {Array<[string, string]>} */
const KEY_LIST = [
  ["j  k", "next and previous conversation"],
  ["g a", "approvals: focus the first question (g d does the same)"],
  ["g t", "transcript"],
  ["g c", "composer"],
  ["y  n", "on a focused question: allow as chosen, deny"],
  ["w", "weave: a conversation and all it asked others as one story"],
  ["/", "find in the transcript"],
  ["←  →", "in a replay: a record back, on; with Shift a request, with Alt a task"],
  ["?", "these keys"],
  ["Esc", "leave what is open"],
];

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
