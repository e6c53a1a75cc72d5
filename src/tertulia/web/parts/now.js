// The time, for views that show how long something takes. It ticks only while such a view is there.

import { useEffect, useReducer } from "./html.js";

/** Draw this view once a second, as long as `active`. @param {boolean} active @returns {number} milliseconds since 1970 */
export function useNow(active) {
  const [, tick] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => tick(undefined), 1_000);
    return () => clearInterval(timer);
  }, [active]);
  return Date.now();
}
