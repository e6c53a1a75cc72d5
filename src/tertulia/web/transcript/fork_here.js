// Goes on in a copy of the conversation from a message; files that were changed since can come back with it.

import { copyCells } from "../board/copied_cells.js";
import { html, useEffect, useState } from "../parts/html.js";
import { app } from "../app_state.js";

const NAMED = 5;

/** Forks at once where no file was changed since, and asks before that else.
 * @param {{cell: import("../types.js").UserCell | import("../types.js").TextCell, leave: () => void}} props */
export function ForkHere({ cell, leave }) {
  const { session, conversation } = app.route;
  const about = { session_id: session, conversation_id: conversation ?? "" };
  const back = { ...about, since: cell.ts };
  const [files, setFiles] = useState(/** @type {Array<{path: string}>} */ ([]));
  /** @param {boolean} restores */
  const fork = (restores) =>
    app.attempt(async () => {
      leave();
      // Before the fork: where it is refused, nothing has happened.
      const done = restores ? await app.link.call("checkpoint/restore", back) : null;
      const { conversation_id } = await app.link.call("conversation/fork", { ...about, at: cell.item_id });
      const board = app.selected()?.board;
      if (board && conversation) copyCells(board, conversation, conversation_id, cell.item_id);
      app.go({ conversation: conversation_id });
      if (done) app.say(sentence(done));
    });
  useEffect(() => {
    // Files are not recorded in the middle of a task, which a message may have joined.
    const joined = "how" in cell && cell.how === "steer";
    const shown = joined ? Promise.resolve({ files: [] }) : app.link.call("checkpoint/restore", { ...back, dry_run: true });
    // Refused: nothing was changed since, or nothing is recorded here.
    shown.then((plan) => (plan.files.length ? setFiles(plan.files) : fork(false)), () => fork(false));
  }, []);
  if (!files.length) return null;
  const named = files.slice(0, NAMED).map((file) => file.path).join(", ");
  const more = files.length > NAMED ? ` and ${files.length - NAMED} more` : "";
  return html`<span class="acts" role="group" aria-label="Fork here">Changed since then: ${named}${more}
    <button type="button" onClick=${() => fork(true)}>Fork and bring the files back</button>
    <button type="button" onClick=${() => fork(false)}>Fork only</button>
    <button type="button" class="quiet" autofocus onClick=${leave}>Leave it</button>
  </span>`;
}

/** @param {{files: any[], left: Array<{path: string}>, undo_id: string | null}} done */
function sentence({ files, left, undo_id }) {
  const back = files.length === 1 ? "1 file is as it was then" : `${files.length} files are as they were then`;
  const rest = left.length ? `; left as they are, because others changed them: ${left.map((file) => file.path).join(", ")}` : "";
  return undo_id ? `${back}${rest}. \`tertulia undo --to ${undo_id}\` takes that back.` : `No file had to be brought back${rest}.`;
}
