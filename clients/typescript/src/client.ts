// The client: requests and their answers, events as they come, and the two ways to reach a server.
// Needs nothing but the platform: a WebSocket, and in Node `node:child_process` for an app-server of its own.

import { GeneratedClient } from "./protocol.ts";
import type { AnyEvent, Operations } from "./protocol.ts";

export * from "./protocol.ts";

/** A request that was refused: `code` is the stable name, such as `not_found`. */
export class RpcError extends Error {
  readonly number: number;
  readonly code: string;
  readonly data: Record<string, unknown>;

  constructor(number: number, message: string, data: Record<string, unknown>) {
    super(message);
    this.name = "RpcError";
    this.number = number;
    this.data = data;
    this.code = String(data["code"] ?? "internal");
  }
}

/** The connection ended before there was an answer. */
export class ConnectionClosedError extends Error {}

/** Moves whole messages of text. */
export interface Connection {
  send(text: string): void;
  /** Ends it; resolves when the other side has ended too. */
  close(): Promise<void>;
  /** Called once, before anything comes. `closed` is called once, at the end. */
  listen(received: (text: string) => void, closed: () => void): void;
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** Made by `connect` and `start`. Requests may run side by side; `initialize` comes first. */
export class Client extends GeneratedClient {
  #connection: Connection;
  #number = 0;
  #waiting = new Map<number, Waiting>();
  #readers = new Set<EventQueue>();
  #closed = false;

  constructor(connection: Connection) {
    super();
    this.#connection = connection;
    connection.listen(
      (text) => this.#take(JSON.parse(text)),
      () => this.#end(),
    );
  }

  /** Send a request and return its result; rejects with RpcError where it is refused. */
  call<M extends keyof Operations>(method: M, params: Operations[M]["params"]): Promise<Operations[M]["result"]> {
    if (this.#closed) return Promise.reject(new ConnectionClosedError("the connection has ended"));
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: (result) => resolve(result as Operations[M]["result"]), reject });
      this.#connection.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** Every event from this call on, until the connection ends or the loop is left. */
  events(): AsyncIterableIterator<AnyEvent> {
    const queue = new EventQueue(() => this.#readers.delete(queue));
    this.#readers.add(queue);
    if (this.#closed) queue.end();
    return queue;
  }

  /** End the connection. What was asked for goes on at a server, and ends with an app-server of its own. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  #take(message: Record<string, any>): void {
    if (message["method"] === "event") {
      for (const queue of this.#readers) queue.put(message["params"] as AnyEvent);
      return;
    }
    const waiting = this.#waiting.get(message["id"]);
    this.#waiting.delete(message["id"]);
    const error = message["error"];
    if (error === undefined) waiting?.resolve(message["result"]);
    else waiting?.reject(new RpcError(error.code, error.message, error.data ?? {}));
  }

  #end(): void {
    this.#closed = true;
    for (const waiting of this.#waiting.values()) {
      waiting.reject(new ConnectionClosedError("the connection ended before there was an answer"));
    }
    this.#waiting.clear();
    for (const queue of this.#readers) queue.end();
  }
}

class EventQueue implements AsyncIterableIterator<AnyEvent> {
  #events: AnyEvent[] = [];
  #next: ((result: IteratorResult<AnyEvent>) => void)[] = [];
  #over = false;
  #left: () => void;

  constructor(left: () => void) {
    this.#left = left;
  }

  put(event: AnyEvent): void {
    const next = this.#next.shift();
    if (next === undefined) this.#events.push(event);
    else next({ value: event, done: false });
  }

  end(): void {
    this.#over = true;
    for (const next of this.#next.splice(0)) next({ value: undefined, done: true });
  }

  next(): Promise<IteratorResult<AnyEvent>> {
    const event = this.#events.shift();
    if (event !== undefined) return Promise.resolve({ value: event, done: false });
    if (this.#over) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.#next.push(resolve));
  }

  return(): Promise<IteratorResult<AnyEvent>> {
    this.#left();
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<AnyEvent> {
    return this;
  }
}

const inNode = typeof (globalThis as any).process?.versions?.node === "string";

/** A client of `tertulia serve`. `url` is what it prints, with http or ws; `token` is in the file that it names. */
export function connect(url: string, token: string): Promise<Client> {
  const address = `${url.replace(/^http/, "ws").replace(/\/$/, "")}/ws`;
  // A page cannot set headers of a WebSocket, and a program is to send the token in one.
  const options: any = inNode ? { headers: { Authorization: `Bearer ${token}` } } : ["tertulia", `bearer.${token}`];
  const socket = new WebSocket(address, options);
  return new Promise((resolve, reject) => {
    socket.onerror = () => reject(new ConnectionClosedError(`${address} cannot be reached, or refused the token`));
    socket.onopen = () => resolve(new Client(overSocket(socket)));
  });
}

function overSocket(socket: WebSocket): Connection {
  const ended = new Promise<void>((resolve) => socket.addEventListener("close", () => resolve()));
  return {
    send: (text) => socket.send(text),
    close: () => {
      socket.close();
      return ended;
    },
    listen: (received, closed) => {
      socket.addEventListener("message", (message) => received(String(message.data)));
      socket.addEventListener("close", closed);
    },
  };
}

/** A client of an app-server of its own; Node only. `close` ends it. */
export async function start(command: readonly string[] = ["tertulia", "app-server"]): Promise<Client> {
  // By a name that is no literal: pages have no such module, and types for Node would be a dependency.
  const name = "node:child_process";
  const { spawn } = await import(name);
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  return new Client({
    send: (text) => child.stdin.write(`${text}\n`),
    close: () => {
      child.stdin.end();
      return ended;
    },
    listen: (received, closed) => {
      let rest = "";
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (part: string) => {
        const lines = (rest + part).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) received(line);
      });
      void ended.then(closed);
    },
  });
}
