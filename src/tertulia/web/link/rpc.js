// The connection with the server: JSON-RPC over a WebSocket, made again whenever it is lost.

/** @typedef {"connecting" | "open" | "away" | "refused" | "no_token"} LinkState */

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8_000;
const TOKEN_KEY = "tertulia.token";

/** An error that the server answered with; `code` is its name. */
export class RpcError extends Error {
  /** @param {{message: string, data?: any}} error */
  constructor(error) {
    super(error.message);
    /** @type {string} */
    this.code = error.data?.code ?? "internal";
    this.data = error.data ?? {};
  }
}

/** Take the token out of the address, where it comes in behind the #, and hold it for this page alone.
 * @returns {string | null} */
export function takeToken() {
  const found = /(?:^#|&)token=([^&]+)/.exec(location.hash);
  if (found?.[1]) {
    sessionStorage.setItem(TOKEN_KEY, decoded(found[1]));
    const rest = location.hash.replace(/(^#|&)token=[^&]+&?/, "$1").replace(/^#$/, "");
    history.replaceState(null, "", location.pathname + rest);
  }
  return sessionStorage.getItem(TOKEN_KEY);
}

/** A connection; null for a token that is none: a browser does not send what no header may have. @param {string} address @param {string} token */
function openSocket(address, token) {
  try {
    return new WebSocket(address, ["tertulia", `bearer.${token}`]);
  } catch {
    return null;
  }
}

/** A part of an address that may be broken; then as it is. @param {string} text */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** One connection at a time. Requests of a lost connection fail with the code `away`. */
export class Link {
  /** @param {string | null} token */
  constructor(token) {
    this.token = token;
    /** @type {LinkState} */
    this.state = token ? "connecting" : "no_token";
    /** @type {(state: LinkState) => void} */
    this.onState = () => {};
    /** @type {(method: string, params: any) => void} */
    this.onNotification = () => {};
    /** @type {any} */
    this.server = null;
    this.wait = FIRST_WAIT_MS;
    this.ids = 0;
    /** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
    this.pending = new Map();
    /** @type {WebSocket | null} */
    this.socket = null;
  }

  /** Open the connection, and open it again as long as the page is there. */
  start() {
    if (!this.token) return;
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
    const socket = openSocket(address, this.token);
    if (!socket) {
      this.setState("refused");
      return;
    }
    this.socket = socket;
    socket.onopen = () => void this.introduce();
    socket.onmessage = (message) => this.receive(String(message.data));
    socket.onclose = () => void this.lose(socket);
  }

  /** Say who we are: an observer that answers questions. No session is made for it. */
  async introduce() {
    this.server = await this.call("initialize", { client: { name: "dashboard" }, observe: true, attend: true });
    this.wait = FIRST_WAIT_MS;
    this.setState("open");
  }

  /**
   * Send a request and have its result.
   * @template {keyof import("../types.js").Operations} M
   * @param {M} method
   * @param {import("../types.js").Operations[M]["params"]} params
   * @returns {Promise<import("../types.js").Operations[M]["result"]>}
   */
  call(method, params) {
    return this.request(method, params);
  }

  /**
   * The same for an operation that the types do not know.
   * @param {string} method
   * @param {Record<string, any>} params
   * @returns {Promise<any>}
   */
  request(method, params) {
    const { socket } = this;
    if (!socket || socket.readyState !== WebSocket.OPEN) return Promise.reject(away());
    const id = ++this.ids;
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return new Promise((resolve, reject) => this.pending.set(id, { resolve, reject }));
  }

  /** @param {string} text */
  receive(text) {
    const message = JSON.parse(text);
    for (const one of Array.isArray(message) ? message : [message]) this.handle(one);
  }

  /** @param {any} message */
  handle(message) {
    if (message.method) {
      this.onNotification(message.method, message.params);
      return;
    }
    const request = this.pending.get(message.id);
    this.pending.delete(message.id);
    if (message.error) request?.reject(new RpcError(message.error));
    else request?.resolve(message.result);
  }

  /** The connection is gone: find out why, and try again. @param {WebSocket} socket */
  async lose(socket) {
    if (socket !== this.socket) return;
    for (const request of this.pending.values()) request.reject(away());
    this.pending.clear();
    this.setState("away");
    if (await this.isRefused()) {
      this.setState("refused");
      return;
    }
    const jitter = this.wait * (0.75 + Math.random() / 2);
    setTimeout(() => this.start(), jitter);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  /** Whether the server is there and does not want our token. A browser does not tell that of a WebSocket. */
  async isRefused() {
    try {
      const answer = await fetch("/health", { headers: { Authorization: `Bearer ${this.token}` } });
      return answer.status === 401;
    } catch {
      return false;
    }
  }

  /** @param {LinkState} state */
  setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.onState(state);
  }
}

const away = () => new RpcError({ message: "The server is away.", data: { code: "away" } });
