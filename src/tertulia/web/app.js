// Starts the page: the connection, the state, the first drawing.

import { html, render } from "./parts/html.js";
import { app } from "./app_state.js";
import { listenToKeys } from "./shell/keys.js";
import { Shell } from "./shell/shell.js";

const place = document.getElementById("app");
place?.replaceChildren();
if (place) render(html`<${Shell} />`, place);
listenToKeys();
app.start();
