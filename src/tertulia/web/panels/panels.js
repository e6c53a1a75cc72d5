// The panels beside the transcript, in their order. A panel gets `feed` and `view`: the chosen session and conversation.

import { Approvals } from "../approvals/approvals.js";
import { lazy } from "../parts/lazy.js";

/** @type {Array<{id: string, title: string, view: any}>} */
export const PANELS = [
  { id: "approvals", title: "Approvals", view: Approvals },
  { id: "rights", title: "Rights", view: lazy(async () => (await import("./rights.js")).Rights) },
  { id: "prompt", title: "Prompt", view: lazy(async () => (await import("./prompt.js")).Prompt) },
  { id: "canvas", title: "Canvas", view: lazy(async () => (await import("./canvas.js")).CanvasGrid) },
  { id: "files", title: "Files", view: lazy(async () => (await import("./files.js")).Files) },
  { id: "mcp", title: "MCP", view: lazy(async () => (await import("./mcp.js")).McpServers) },
  { id: "numbers", title: "Numbers", view: lazy(async () => (await import("./numbers.js")).Numbers) },
];
