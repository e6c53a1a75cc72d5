// What every view is written with.

import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, Fragment, render } from "../vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../vendor/hooks.js";

/** Elements written as HTML. What stands in `${}` is always text, a property or an element: never markup. */
export const html = htm.bind(h);

/** Class names, without those that are false. @param {...(string | false | null | undefined)} names */
export const classes = (...names) => names.filter(Boolean).join(" ");
