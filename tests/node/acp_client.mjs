// Another ACP host: the official TypeScript SDK's client against an agent. Prints what it saw as one JSON object.
// node acp_client.mjs SDK_DIRECTORY WORKING_DIRECTORY COMMAND [ARGUMENT...]
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/stable/acp.js`));
const { agent: methods, client: own } = acp.methods;
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = { updates: [], permissions: [], outputs: [] };
let open = "saved\ntyped\n";
let cancelled = () => {};

const app = acp
  .client({ name: "another host" })
  .onNotification(own.session.update, (ctx) => {
    seen.updates.push(ctx.params.update.sessionUpdate);
    if (ctx.params.update.sessionUpdate === "agent_message_chunk") cancelled();
    if (ctx.params.update.rawOutput) seen.outputs.push(ctx.params.update.content?.[0]?.content?.text);
  })
  .onRequest(own.fs.readTextFile, () => ({ content: open }))
  .onRequest(own.fs.writeTextFile, (ctx) => {
    writeFileSync(ctx.params.path, (open = ctx.params.content));
    return {};
  })
  .onRequest(own.session.requestPermission, (ctx) => {
    seen.permissions.push(ctx.params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: ctx.params.options[0].optionId } };
  });

await app.connectWith(stream, async (ctx) => {
  const text = (text) => [{ type: "text", text }];
  seen.initialize = await ctx.request(methods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const { sessionId, modes, configOptions } = await ctx.request(methods.session.new, { cwd, mcpServers: [] });
  seen.modes = modes.availableModes.map((mode) => mode.id);
  seen.options = configOptions.map((option) => option.id);
  const first = await ctx.request(methods.session.prompt, { sessionId, prompt: text("use a tool") });
  await ctx.request(methods.session.prompt, { sessionId, prompt: text("change what is open") });
  const waiting = new Promise((resolve) => (cancelled = resolve));
  const second = ctx.request(methods.session.prompt, { sessionId, prompt: text("talk for ever") });
  await waiting;
  await ctx.notify(methods.session.cancel, { sessionId });
  seen.stops = [first.stopReason, (await second).stopReason];
  await ctx.request(methods.session.setMode, { sessionId, modeId: "read-only" });
  seen.listed = (await ctx.request(methods.session.list, {})).sessions.map((session) => session.sessionId);
  await ctx.request(methods.session.close, { sessionId });
  seen.updates = [];
  await ctx.request(methods.session.load, { sessionId, cwd, mcpServers: [] });
  seen.replayed = [...new Set(seen.updates)];
  seen.own = sessionId;
  try {
    await ctx.request(methods.session.prompt, { sessionId: "nobody", prompt: text("hello") });
  } catch (error) {
    seen.refused = [error.code, error.data.code];
  }
});
child.stdin.end();
seen.exit = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify(seen));
