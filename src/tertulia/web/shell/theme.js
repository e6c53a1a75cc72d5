// Dark, light, or as the system has it. Nothing of it is stored beyond this page.

import { html, useState } from "../parts/html.js";
import { app } from "../app_state.js";

const THEMES = ["system", "dark", "light"];
const KEY = "tertulia.theme";

/** @param {string} theme */
function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  sessionStorage.setItem(KEY, theme);
}

apply(sessionStorage.getItem(KEY) ?? "system");

/** Changes from one to the next. */
export function ThemeButton() {
  const [theme, setTheme] = useState(sessionStorage.getItem(KEY) ?? "system");
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
  const change = () => {
    apply(next);
    setTheme(next);
    // What is painted has its colours from before.
    app.topics.touch("route");
  };
  return html`<button type="button" class="quiet theme" onClick=${change} title=${`Colours: ${theme}. Change to ${next}`} aria-label=${`Colours: ${theme}`}>
    <span aria-hidden="true">◑</span>
  </button>`;
}
