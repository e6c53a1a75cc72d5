// What every view is written with.

import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";
import { printable } from "./printable.js";

export { Component, Fragment, render } from "../vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../vendor/hooks.js";

/** Properties of elements that people read or hear. */
const READ = ["title", "aria-label"];

/** @param {any} child @returns {any} */
const shown = (child) => (typeof child === "string" ? printable(child) : Array.isArray(child) ? child.map(shown) : child);

/** An element, in whose texts nothing hides. @param {any} type @param {any} props @param {any[]} children */
function element(type, props, ...children) {
  if (typeof type === "string") for (const name of READ) if (props?.[name]) props[name] = shown(props[name]);
  return h(type, props, ...children.map(shown));
}

/** Elements written as HTML. What stands in `${}` is always text, a property or an element: never markup. */
export const html = htm.bind(element);

/** Class names, without those that are false. @param {...(string | false | null | undefined)} names */
export const classes = (...names) => names.filter(Boolean).join(" ");
