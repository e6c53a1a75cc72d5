// What the official Codex SDK for TypeScript promises its users, case by case. Prints the name of each case that holds.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { sdk, program, env, url, plain, repository } = JSON.parse(process.argv[2]);
const { Codex } = await import(pathToFileURL(sdk).href);
const seen = async () => (await fetch(`${url}/seen`)).json();
const newest = async () => (await seen()).at(-1);
const options = { workingDirectory: repository };
const mock = { name: "As Codex spells it", base_url: `${url}/v1`, wire_api: "responses", supports_websockets: false };
const providers = { model_provider: "mock", model_providers: { mock }, features: { plugins: false } };
const bySettings = (config = {}) => new Codex({ codexPathOverride: program, env, config: { ...providers, ...config } });
const byAddress = (config) => new Codex({ codexPathOverride: program, env, baseUrl: `${url}/v1`, apiKey: "k", config });
const usage = {
  input_tokens: 11,
  cached_input_tokens: 3,
  cache_write_input_tokens: 0,
  output_tokens: 7,
  reasoning_output_tokens: 5,
};
const textOf = (content) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));
const texts = (body, role) => body.input.filter((item) => item.role === role).map((item) => textOf(item.content));
const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"], additionalProperties: false };

const cases = {
  async events_have_exactly_the_fields_of_codex() {
    for (const client of [bySettings(), byAddress()]) {
      const thread = client.startThread(options);
      const events = [];
      for await (const event of (await thread.runStreamed("case:phases")).events) events.push(event);
      assert.deepEqual(events, [
        { type: "thread.started", thread_id: thread.id },
        { type: "turn.started" },
        { type: "item.completed", item: { id: "item_0", type: "agent_message", text: "On my way", phase: "commentary" } },
        { type: "item.completed", item: { id: "item_1", type: "agent_message", text: "There", phase: "final_answer" } },
        { type: "turn.completed", usage },
      ]);
    }
  },
  async a_run_has_items_and_usage() {
    const turn = await bySettings().startThread(options).run("case:unknown");
    assert.equal(turn.finalResponse, "Second");
    assert.deepEqual(turn.items, [
      { id: "item_0", type: "agent_message", text: "First" },
      { id: "item_1", type: "agent_message", text: "Second" },
    ]);
    assert.deepEqual(turn.usage, usage);
  },
  async a_thread_goes_on_and_is_resumed_by_its_id() {
    const client = bySettings();
    const thread = client.startThread(options);
    const first = await thread.run("one");
    await thread.run("two");
    const resumed = client.resumeThread(thread.id, options);
    await resumed.run("three");
    assert.equal(resumed.id, thread.id);
    const body = await newest();
    assert.equal(texts(body, "assistant")[0], first.finalResponse);
    assert.equal(texts(body, "assistant").length, 2);
    assert.ok(texts(body, "user").at(-1).endsWith("three"));
  },
  async options_of_a_thread_are_taken() {
    const given = { model: "o3", sandboxMode: "workspace-write", approvalPolicy: "on-request", ...options };
    const wide = { networkAccessEnabled: true, webSearchMode: "cached", modelReasoningEffort: "high" };
    const missing = { additionalDirectories: ["../not-there", "/tmp/not-there"] };
    await bySettings().startThread({ ...given, ...wide, ...missing }).run("go");
    const body = await newest();
    assert.equal(body.model, "o3");
    assert.equal(body.reasoning.effort, "high");
  },
  async settings_that_are_not_known_are_ignored_with_an_item_that_names_them() {
    const config = { retry_budget: 3, tool_rules: { allow: ["git status"] }, approval_policy: "never" };
    const { items, finalResponse } = await byAddress(config).startThread({ ...options, approvalPolicy: "on-request" }).run("go");
    assert.ok(finalResponse.startsWith("answer"));
    const errors = items.filter((item) => item.type === "error").map((item) => item.message.split(" ")[0]);
    assert.deepEqual(errors, ["retry_budget", "tool_rules.allow"]);
  },
  async a_setting_that_takes_rights_away_is_refused() {
    const before = (await seen()).length;
    const config = { history: { persistence: "none" } };
    await assert.rejects(bySettings(config).startThread(options).run("go"), /history/);
    assert.equal((await seen()).length, before);
  },
  async a_schema_reaches_the_provider_and_the_answer_comes_as_it_is() {
    const turn = await bySettings().startThread(options).run("case:unknown", { outputSchema: schema });
    const format = { name: "codex_output_schema", type: "json_schema", strict: true, schema };
    assert.deepEqual((await newest()).text.format, format);
    assert.equal(turn.finalResponse, "Second");
  },
  async segments_of_text_are_one_message_and_pictures_follow() {
    const broken = path.join(repository, "broken.png");
    writeFileSync(broken, "no picture");
    const input = [{ type: "text", text: "one" }, { type: "text", text: "two" }, { type: "local_image", path: broken }];
    await bySettings().startThread(options).run(input);
    const text = texts(await newest(), "user").at(-1);
    assert.ok(text.includes("one\n\ntwo"));
    assert.ok(text.includes("broken.png"));
  },
  async outside_of_a_repository_it_has_to_be_wanted() {
    const before = (await seen()).length;
    const thread = bySettings().startThread({ workingDirectory: plain });
    await assert.rejects(thread.run("go"), /Not inside a trusted directory/);
    assert.equal((await seen()).length, before);
    await bySettings().startThread({ workingDirectory: plain, skipGitRepoCheck: true }).run("go");
  },
  async a_turn_that_fails_throws_what_the_provider_said() {
    await assert.rejects(bySettings().startThread(options).run("case:failure"), /it burst/);
  },
  async a_turn_is_aborted_before_and_while_it_runs() {
    const over = new AbortController();
    over.abort();
    await assert.rejects(bySettings().startThread(options).run("go", { signal: over.signal }));
    const stopping = new AbortController();
    const { events } = await bySettings().startThread(options).runStreamed("case:held", { signal: stopping.signal });
    await assert.rejects(async () => {
      for await (const event of events) if (event.type === "turn.started") stopping.abort();
    });
  },
};

mkdirSync(path.join(repository, ".git"), { recursive: true });
for (const [name, hold] of Object.entries(cases)) {
  await hold();
  console.log(name);
}
process.exit(0);
