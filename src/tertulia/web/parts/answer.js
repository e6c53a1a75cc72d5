// The answer to a request that a view shows; asked again when what it depends on has changed.

import { useEffect, useState } from "./html.js";
import { app } from "../app_state.js";

/**
 * @param {string} method
 * @param {Record<string, any> | null | undefined} params null: nothing is asked yet
 * @param {string} [version] asked again when this is another
 * @returns {{answer: any, error: string}}
 */
export function useAnswer(method, params, version = "") {
  const [state, setState] = useState(/** @type {{answer: any, error: string}} */ ({ answer: null, error: "" }));
  useEffect(() => {
    let current = true;
    if (params && app.link.state === "open") {
      app.link.request(method, params).then(
        (answer) => current && setState({ answer, error: "" }),
        (error) => current && setState((before) => ({ ...before, error: error.message })),
      );
    }
    return () => void (current = false);
  }, [method, JSON.stringify(params), version, app.link.state]);
  return state;
}
