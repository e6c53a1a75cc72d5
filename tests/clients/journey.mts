// What a program does with the TypeScript client, against a real server: `node journey.mts serve URL TOKEN`, or
// `node journey.mts start COMMAND…`. Prints one line of JSON with what it saw; the test in Python looks at it.

import { connect, RpcError, start } from "../../clients/typescript/src/client.ts";
import type { AnyEvent, Client } from "../../clients/typescript/src/client.ts";

const [way, ...rest] = (globalThis as any).process.argv.slice(2) as string[];
const client: Client = way === "serve" ? await connect(rest[0] ?? "", rest[1] ?? "") : await start(rest);

const seen: string[] = [];
const following = (async () => {
  for await (const event of client.events()) {
    seen.push(event.type);
    await answer(event);
  }
})();

async function answer(event: AnyEvent): Promise<void> {
  if (event.type === "approval_request") {
    // `event.data` is an ApprovalRequest here, by the type of the event.
    await client.approvalResolve({ approval_id: event.data.approval_id, decision: "deny" });
  }
}

let before = "";
await client.sessionInfo().catch((error: unknown) => (before = error instanceof RpcError ? error.code : String(error)));
const info = await client.initialize({ client: { name: "journey" }, attend: true });
const opened = await client.conversationOpen({ title: "helper" });
const reply = await client.conversationMessage({ conversation_id: opened.conversation_id, text: "go" });
const text = "last_assistant_message" in reply ? reply.last_assistant_message : null;
let refused = { code: "", number: 0 };
try {
  await client.conversationSteer({ conversation_id: opened.conversation_id, text: "faster" });
} catch (error) {
  if (error instanceof RpcError) refused = { code: error.code, number: error.number };
}
const listed = await client.conversationList();
await client.close();
await following;
console.log(
  JSON.stringify({
    before,
    protocol: info.protocol_version,
    text,
    refused,
    titles: listed.conversations.map((conversation) => conversation.title),
    seen,
  }),
);
