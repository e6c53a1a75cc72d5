// Drives a browser for the tests: reads requests from standard input, one JSON object a line, and answers each with a
// line. {id, page, method, args} calls a method of a page, or of something in it by a path ("keyboard.press").
// The page "" is the driver itself: open, close.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [, , tools, profile] = process.argv;
const { chromium } = createRequire(`${tools}/`)("playwright-core");
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
const context = await chromium.launchPersistentContext(profile, { executablePath: "/usr/bin/chromium", headless: true, args: FLAGS });
const browser = context.browser();
const pages = new Map();

const driver = {
  /** A page of its own, with what it asks for, logs and reports kept. */
  async open(name, options = {}) {
    const own = await browser.newContext(options);
    own.setDefaultTimeout(options.timeout ?? 30_000);
    const page = await own.newPage();
    const seen = { requests: [], console: [], errors: [] };
    page.on("request", (request) => seen.requests.push(request.url()));
    // What a policy forbids is told as a request that failed; it was never sent.
    page.on("requestfailed", (request) => {
      if (request.failure()?.errorText === "csp") seen.requests = seen.requests.filter((url) => url !== request.url());
    });
    page.on("websocket", (socket) => seen.requests.push(socket.url()));
    page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    pages.set(name, { page, own, seen });
  },
  async close(name) {
    await pages.get(name)?.own.close();
    pages.delete(name);
  },
  seen: (name) => pages.get(name).seen,
  /** The bytes that the scripts of a page hold, without what nothing refers to. */
  async heap(name) {
    const { own, page } = pages.get(name);
    const session = await own.newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    await session.detach();
    return usedSize;
  },
  /** The CPU time that the main thread of a page has taken since this was asked first, in milliseconds. */
  async cpu(name) {
    const at = pages.get(name);
    if (!at.clock) {
      at.clock = await at.own.newCDPSession(at.page);
      await at.clock.send("Performance.setTimeDomain", { timeDomain: "threadTicks" });
      await at.clock.send("Performance.enable");
    }
    const { metrics } = await at.clock.send("Performance.getMetrics");
    return 1000 * metrics.find((one) => one.name === "TaskDuration").value;
  },
  async stop() {
    await context.close();
    process.exit(0);
  },
};

/** What is in the frame of a canvas. */
async function inFrame(page, method, text) {
  await page.waitForSelector("iframe");
  const find = () => page.frames().find((one) => one.url().endsWith("/frame.html"));
  // Its element comes before its document.
  for (let tries = 0; !find() && tries < 500; tries += 1) await new Promise((done) => setTimeout(done, 20));
  const frame = find();
  if (method === "_frame_runs") return frame.evaluate(text);
  await frame.waitForSelector(text);
  return null;
}

async function answer({ page, method, args = [] }) {
  if (!page) return driver[method](...args);
  const at = pages.get(page).page;
  if (method.startsWith("_frame")) return inFrame(at, method, args[0]);
  const path = method.split(".");
  const name = path.pop();
  const owner = path.reduce((from, part) => from[part], at);
  const result = await owner[name](...args);
  return result && typeof result === "object" && result.constructor?.name !== "Object" && !Array.isArray(result) ? null : result;
}

console.log(JSON.stringify({ ready: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  answer(request).then(
    (result) => console.log(JSON.stringify({ id: request.id, result: result ?? null })),
    (error) => console.log(JSON.stringify({ id: request.id, error: String(error?.stack ?? error) })),
  );
}
await context.close();
