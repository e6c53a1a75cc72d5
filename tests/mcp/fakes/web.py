"""Servers behind an address, with the standard library alone: see the package's docstring."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODE, PORT = sys.argv[1], int(sys.argv[2])
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("echo", "headers")]
VERSION = "2025-11-25"
called = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/seen":
            self.reply(json.dumps(seen).encode())
        elif MODE == "challenge":
            self.metadata()
        elif MODE == "hot-get":
            seen.append("GET")
            self.reply(b"retry: 0\n\n", kind="text/event-stream")
        else:
            self.send_error(405)

    def do_DELETE(self) -> None:
        if MODE == "clings":
            threading.Event().wait()
        self.reply(b"")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if MODE == "challenge" and self.headers["authorization"] != "Bearer the-right-one":
            self.challenge()
            return
        if MODE == "redirect" or (MODE == "moved" and self.path == "/mcp"):
            self.send_response(307)
            self.send_header("location", "/here" if MODE == "moved" else f"http://localhost:{sys.argv[3]}/mcp")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if "id" not in message:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        match message["method"]:
            case "initialize":
                info = {"name": "web", "version": "1"}
                self.result(message, {"protocolVersion": VERSION, "serverInfo": info, "capabilities": {"tools": {}}})
            case "tools/list":
                self.result(message, {"tools": TOOLS})
            case "tools/call":
                self.call(message)
            case _:
                self.send_message({"id": message["id"], "error": {"code": -32601, "message": "no"}})

    def challenge(self) -> None:
        """Not without a token; and where one would be told how to get it."""
        seen.append(f"POST {self.path}")
        self.send_response(401)
        self.send_header("www-authenticate", f'Bearer resource_metadata="{sys.argv[3]}", error="invalid_token"')
        self.send_header("content-length", "0")
        self.end_headers()

    def metadata(self) -> None:
        """Where one would be told how to get it: addresses that a careless client opens with whatever opens them."""
        seen.append(f"GET {self.path}")
        odd = ("javascript:alert(1)", "-oProxyCommand=touch /tmp/owned", "file:///etc/passwd")
        endpoints = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
        body = {"resource": odd[2], "authorization_servers": list(odd), **dict(zip(endpoints, odd, strict=True))}
        self.reply(json.dumps(body).encode())

    def call(self, message: dict[str, Any]) -> None:
        seen.append(dict(self.headers))
        match MODE:
            case "html":
                self.reply(b"<html>oops</html>", kind="text/html")
            case "gzip":
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}).encode()
                self.reply(gzip.compress(body), encoding="gzip")
            case "drops":
                self.connection.shutdown(socket.SHUT_RDWR)
            case "cut":
                self.reply(b'{"jsonrpc":"2.0"', length=5000)
                self.connection.shutdown(socket.SHUT_RDWR)
            case "endless":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                while True:
                    self.wfile.write(b" " * (1 << 20))
            case "many-parts":
                parts = b'{"content":[],"a":[' + b"{}," * 1_000_000 + b"{}]}"
                body = b'event: message\ndata: {"jsonrpc":"2.0","id":%d,"result":%b}\n\n' % (message["id"], parts)
                self.reply(body, kind="text/event-stream")
            case "session-lost" if not called.is_set():
                called.set()
                self.send_error(404)
            case _:
                self.result(message, {"content": [{"type": "text", "text": json.dumps(dict(self.headers))}]})

    def result(self, message: dict[str, Any], result: Any) -> None:
        self.send_message({"id": message["id"], "result": result})

    def send_message(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if MODE == "sse":
            self.reply(b"event: message\ndata: " + body + b"\n\n", kind="text/event-stream")
        else:
            self.reply(body)

    def reply(
        self, body: bytes, *, kind: str = "application/json", encoding: str = "", length: int | None = None
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) if length is None else length))
        self.send_header("mcp-session-id", "s1")
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        self.wfile.write(body)


seen: list[Any] = []
server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
sys.stdout.write(f"{server.server_address[1]}\n")
sys.stdout.flush()
server.serve_forever()
