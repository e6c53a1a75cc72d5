// The words and marks of the page: the same as view/text.py has for the terminal.

import { textOf } from "./cells.js";

/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {(id: string) => string} NameOf */

/** @type {Record<import("../types.js").ConversationState, string>} */
export const STATE_MARKS = { idle: "○", running: "●", waiting: "◐", asking: "?", failed: "✗", closed: "·" };

/** @type {Record<import("../types.js").ConversationState, string>} */
export const STATE_WORDS = {
  idle: "ready", running: "works", waiting: "waits for an answer", asking: "asks you", failed: "failed", closed: "closed",
};

const SHORT_ID = 8;
const MAX_HEADLINE = 200;
const REFUSED = '{"ok":false';

/** @type {Record<string, string>} */
const END_WORDS = {
  completed: "done",
  failed: "failed",
  replaced: "replaced by another task",
  interrupted: "stopped",
  timeout: "stopped: it took too long",
  shutdown: "stopped: the session was closed",
  crash: "stopped: the program ended before it did",
  limit: "stopped: a limit was reached",
};

/** @type {Record<string, (target: string) => string>} */
const CONVERSATION_CALLS = {
  conv_list: () => "looks at the list of conversations",
  conv_history: (target) => `reads what was written in ${target}`,
  conv_destroy: (target) => `closes ${target}`,
  conv_merge: (target) => `merges the work of ${target}`,
};

/** What a conversation is called. @param {ConversationView} view @param {string | null} [rootId] */
export const nameOf = (view, rootId = null) => view.title || (view.id === rootId ? "root" : shortName(view.id));

/** The name of a conversation of which only the id is known. @param {string} id */
export const shortName = (id) => id.slice(0, SHORT_ID);

/** Names by id, as this board knows them. @param {import("./board.js").Board} board @returns {NameOf} */
export const namesOf = (board) => (id) => {
  const view = board.conversations.get(id);
  return view ? nameOf(view, board.root_id) : shortName(id);
};

/** A call in one line: the command, the files, the conversation or the tool. @param {any} call @param {NameOf} [name] */
export function headline(call, name = shortName) {
  const text = callText(call, name).split(/\s+/).filter(Boolean).join(" ");
  return text.length <= MAX_HEADLINE ? text : `${text.slice(0, MAX_HEADLINE - 1)}…`;
}

/** @param {any} call @param {NameOf} name */
function callText(call, name) {
  switch (call.kind) {
    case "command":
      return `$ ${commandText(call.command)}`;
    case "patch":
      return call.changes.length === 1 ? `changes ${call.changes[0].path ?? "?"}` : `changes ${call.changes.length} files`;
    case "handoff": {
      const target = call.title || (call.target_id ? name(call.target_id) : "");
      return call.name === "conv_create" ? `asks a new conversation “${target}”` : `asks “${target}”`;
    }
    default:
      return call.server ? `${call.server}: ${call.name}${firstArgument(call.arguments)}` : toolText(call, name);
  }
}

/** A command as a person would type it; of a shell that was given a script the script alone. @param {string[]} command */
export function commandText(command) {
  const [shell = "", flag, script] = command;
  const isShell = ["bash", "sh", "zsh"].includes(shell.slice(shell.lastIndexOf("/") + 1));
  if (command.length === 3 && isShell && (flag === "-c" || flag === "-lc")) return script ?? "";
  return command.map(quoted).join(" ");
}

/** @param {string} word */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

/** @param {any} call @param {NameOf} name */
function toolText(call, name) {
  const sentence = CONVERSATION_CALLS[call.name];
  if (!sentence) return `${call.name}${firstArgument(call.arguments)}`;
  const target = fieldOf(call.arguments, "conversation_id");
  return sentence(target ? `“${name(target)}”` : "a conversation");
}

/** The text that a call gave for this parameter, if it did. @param {any} fields @param {string} name */
export function fieldOf(fields, name) {
  const value = fields && typeof fields === "object" ? fields[name] : null;
  return typeof value === "string" ? value : null;
}

/** @param {any} fields */
function firstArgument(fields) {
  if (!fields || typeof fields !== "object" || Array.isArray(fields)) return "";
  const value = Object.values(fields).find((one) => ["string", "number", "boolean"].includes(typeof one));
  return value === undefined ? "" : ` ${String(value).slice(0, 80)}`;
}

/** What came of a call, for people: the reason of a refusal or the answer of a conversation, without their JSON.
 * @param {any} call @returns {string} */
export function callOutput(call) {
  const text = textOf(call);
  const refused = text.startsWith(REFUSED);
  if (!refused && !(call.name.startsWith("conv_") && text.startsWith("{"))) return text;
  try {
    const answer = JSON.parse(text);
    if (call.name === "conv_list" && !refused) {
      return answer.conversations.map((/** @type {any} */ entry) => `${entry.title || "root"}: ${entry.status ?? ""}`).join("\n");
    }
    return fieldOf(answer, "last_assistant_message") || fieldOf(answer, "reason") || "";
  } catch {
    // It was cut, or the tool is another program's.
    return text;
  }
}

/** What stands above a message: who wrote it, where that is not plain, and how it came.
 * @param {import("../types.js").UserCell} cell @param {NameOf} [name] */
export function messageHeading(cell, name = shortName) {
  if (cell.how === "delegated") return cell.caller_id ? `asked by “${name(cell.caller_id)}”` : "asked by another conversation";
  if (cell.how === "steer") return cell.sender ? `${cell.sender}, while it worked` : "while it worked";
  return cell.sender;
}

/** A picture in words. @param {import("../types.js").Attachment} attachment */
export function attachmentText(attachment) {
  if (attachment.url) return `[picture at ${attachment.url}]`;
  const size = attachment.bytes == null ? "" : `, ${Math.max(1, Math.round(attachment.bytes / 1000)).toLocaleString("en-US")} KB`;
  return `[picture ${attachment.media_type || "of an unknown kind"}${size}]`;
}

/** Who or what decided. @param {import("../types.js").Decider | null | undefined} by */
export function deciderText(by) {
  switch (by?.kind) {
    case "client":
      return by.name || "a client";
    case "callback":
      return by.name || "the application";
    case "grant":
      return "a grant given before";
    case "policy":
      return by.name ? `the policy ${by.name}` : "the policy";
    case "clock":
      return "the clock: there was no answer in time";
    case "interrupt":
      return "an interrupt";
    case "shutdown":
      return "the end of the session";
    default:
      return "a client";
  }
}

/** How a question was answered, who answered it and for how long. @param {import("../types.js").ApprovalResolved} answer */
export function answerText(answer) {
  const scopes = { once: " once", conversation: " for this conversation", session: " for the session", project: " for the project" };
  const scope = answer.scope ? scopes[answer.scope] : "";
  const text = `${answer.decision === "allow" ? `allowed${scope}` : "denied"} by ${deciderText(answer.by)}`;
  // "user" is a person's own decision, of which the name is told already.
  return answer.reason && answer.reason !== "user" ? `${text}: ${answer.reason}` : text;
}

/** Who set a right or a rule, in words. @param {string} setBy */
export function setterText(setBy) {
  const [kind = "", name = ""] = setBy.split(/:(.*)/s);
  if (kind === "agent") return `the agent ${name}`;
  if (kind === "ancestor") return `the conversation ${shortName(name)} above it`;
  return name ? `the ${kind} ${name}` : `the ${kind}`;
}

/** How a task ended, and what it used. @param {import("../types.js").TaskEndCell} cell */
export function endText(cell) {
  const text = END_WORDS[cell.status] ?? cell.status;
  return cell.usage ? `${text}, ${grouped(cell.usage.total_tokens ?? 0)} tokens` : text;
}

/** @param {number} count */
export const grouped = (count) => count.toLocaleString("en-US");

/** @param {number} count */
export const moreLines = (count) => (count === 1 ? "1 more line" : `${grouped(count)} more lines`);

/** A number with its noun. @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

/** A time for people: `0.8 s`, `12 s`, `3 min 5 s`, `2 h 10 min`. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${seconds.toFixed(0)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const rest = Math.round(seconds) % 60;
  if (minutes < 60) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
}

/** A number of dollars: small ones exact enough to compare. @param {number} cost */
export const dollars = (cost) => `$${cost < 0.1 ? cost.toFixed(4) : cost.toFixed(2)}`;

/** How long ago, in one word: `now`, `4 min`, `3 h`, `2 d`. @param {string | number} when @param {number} now */
export function age(when, now) {
  const seconds = Math.max(0, (now - (typeof when === "number" ? when * 1000 : Date.parse(when))) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}
