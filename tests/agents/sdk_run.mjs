// What a program with the official Codex SDK does: start a thread, go on with it, and read a turn as it comes.
import { pathToFileURL } from "node:url";

const { sdk, program, env, url, options } = JSON.parse(process.argv[2]);
const { Codex } = await import(pathToFileURL(sdk).href);
const codex = new Codex({ codexPathOverride: program, env });
const say = (value) => console.log(JSON.stringify(value));

const thread = codex.startThread({ ...options, sandboxMode: "read-only", approvalPolicy: "never" });
const turn = await thread.run([{ type: "text", text: "first" }, { type: "text", text: "words" }]);
say({ id: thread.id, answer: turn.finalResponse, usage: turn.usage, items: turn.items.map((item) => item.type) });

const again = codex.resumeThread(thread.id, options);
const { events } = await again.runStreamed("second", { outputSchema: { type: "object" } });
const seen = [];
for await (const event of events) seen.push(event.type);
say({ id: again.id, seen });

const broken = codex.startThread({ ...options, model: "nobody/knows" });
try {
  await broken.run("hello");
  say({ error: null });
} catch (error) {
  say({ error: error.message });
}

const direct = new Codex({ codexPathOverride: program, baseUrl: url, apiKey: "k-123", env });
const wide = direct.startThread({
  ...options,
  model: "gpt-5-codex",
  networkAccessEnabled: true,
  webSearchEnabled: false,
  modelReasoningEffort: "high",
  threadSource: "test",
});
say({ answer: (await wide.run("third")).finalResponse });

// From here on nobody answers.
await new Promise((resolve) => process.stdin.once("data", resolve));
const stopping = new AbortController();
const stopped = codex.startThread({ ...options, workingDirectory: process.cwd() });
const { events: cut } = await stopped.runStreamed("wait", { signal: stopping.signal });
try {
  for await (const event of cut) if (event.type === "turn.started") stopping.abort();
  say({ aborted: false });
} catch (error) {
  say({ aborted: error.name });
}
process.exit(0);
