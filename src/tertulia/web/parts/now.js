// The time, for views that show how long something takes. It ticks only while such a view is there.

import { useEffect, useReducer } from "./html.js";

/** Draw this view once a second, as long as `active`. @param {boolean} active
 * @param {number} [past] the time of a replay, which stands; 0: it is now @returns {number} milliseconds since 1970 */
export function useNow(active, past = 0) {
  const [, tick] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const ticks = active && !past;
  useEffect(() => {
    if (!ticks) return undefined;
    const timer = setInterval(() => tick(undefined), 1_000);
    return () => clearInterval(timer);
  }, [ticks]);
  return past || Date.now();
}
