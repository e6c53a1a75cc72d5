// Views that are not on the first screen: their modules are loaded when one of them is first wanted.

import { html, useEffect, useState } from "./html.js";
import { app } from "../app_state.js";

/** A view in the place of one whose module is loaded when it is first drawn. Until then nothing is there.
 * @param {() => Promise<any>} load the view, from its module */
export function lazy(load) {
  /** @type {any} */
  let loaded = null;
  return function Lazy(/** @type {Record<string, any>} */ props) {
    const [problem, setProblem] = useState("");
    const [, setLoaded] = useState(loaded !== null);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (view) => {
          setLoaded(Boolean((loaded = view)));
          // What it is a part of has another height now: a transcript that follows its end goes on to.
          setTimeout(() => app.topics.touch("route"));
        },
        () => setProblem("This part of the page could not be loaded. Load the page again when the server is back."),
      );
    }, []);
    if (problem) return html`<p class="empty" role="alert">${problem}</p>`;
    return loaded && html`<${loaded} ...${props} />`;
  };
}
