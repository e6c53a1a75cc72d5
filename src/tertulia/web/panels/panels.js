// The panels beside the transcript, in their order. A panel gets `feed` and `view`: the chosen session and conversation.

import { Approvals } from "../approvals/approvals.js";
import { CanvasGrid } from "./canvas.js";
import { McpServers } from "./mcp.js";
import { Numbers } from "./numbers.js";
import { Prompt } from "./prompt.js";
import { Rights } from "./rights.js";

/** @type {Array<{id: string, title: string, view: any}>} */
export const PANELS = [
  { id: "approvals", title: "Approvals", view: Approvals },
  { id: "rights", title: "Rights", view: Rights },
  { id: "prompt", title: "Prompt", view: Prompt },
  { id: "canvas", title: "Canvas", view: CanvasGrid },
  { id: "mcp", title: "MCP", view: McpServers },
  { id: "numbers", title: "Numbers", view: Numbers },
];
