"""A server of MCP with an authorization server beside it, on loopback: counts what it is query."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

TOOLS = [
    {"name": "whoami", "inputSchema": {"type": "object"}},
    {"name": "write", "inputSchema": {"type": "object"}},
]
READ, WRITE = "issues:read", "issues:write"


class Tracker:
    """What it knows. Tests change it."""

    def __init__(self) -> None:
        self.url = ""
        self.valid: dict[str, str] = {}
        """The scopes of each access token that it takes."""
        self.renewals: dict[str, str] = {}
        """The scopes of each renewal token that was not used yet."""
        self.expires_in = 3600
        self.wants_login = True
        self.metadata: dict[str, Any] = {}
        """What its authorization server's metadata has instead."""
        self.resource: dict[str, Any] = {}
        """What the metadata of the resource has instead."""
        self.seen: Counter[str] = Counter()
        self.forms: list[dict[str, str]] = []
        self.registered: list[dict[str, Any]] = []
        self.refuses_renewal = False
        self.renewal_status = 200
        self.renewal_begins: asyncio.Event | None = None
        self.renewal_goes_on = asyncio.Event()
        self.renewal_goes_on.set()
        self._codes: dict[str, dict[str, str]] = {}
        self._numbers = itertools.count(1)

    def issue(self, scope: str = READ) -> dict[str, Any]:
        """A new pair of tokens, as its token endpoint answers it."""
        number = next(self._numbers)
        access, renewal = f"access-token-{number:04}-secret", f"renewal-token-{number:04}-secret"
        self.valid[access], self.renewals[renewal] = scope, scope
        answer = {"access_token": access, "token_type": "Bearer", "refresh_token": renewal, "scope": scope}
        return {**answer, "expires_in": self.expires_in}

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._count])
        app.add_routes(
            [
                web.get("/.well-known/oauth-protected-resource/mcp", self._resource),
                web.get("/.well-known/oauth-authorization-server", self._server),
                web.post("/register", self._register),
                web.get("/authorize", self._authorize),
                web.post("/token", self._token),
                web.post("/revoke", self._revoke),
                web.post("/mcp", self._mcp),
            ]
        )
        return app

    @web.middleware
    async def _count(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.seen[request.path] += 1
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _resource(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"resource": f"{self.url}/mcp", "authorization_servers": [f"{self.url}/"], **self.resource}
        )

    async def _server(self, request: web.Request) -> web.Response:
        places = {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
        }
        return web.json_response(
            {"issuer": f"{self.url}/", "code_challenge_methods_supported": ["S256"], **places, **self.metadata}
        )

    async def _register(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        self.registered.append(wanted)
        return web.json_response({**wanted, "client_id": f"client-{len(self.registered)}"}, status=201)

    async def _authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        code = f"code-{next(self._numbers)}"
        self._codes[code] = query
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        if form["grant_type"] == "refresh_token":
            if self.renewal_begins is not None:
                self.renewal_begins.set()
            await self.renewal_goes_on.wait()
            if self.renewal_status != 200:
                return web.Response(status=self.renewal_status)
            scope = self.renewals.pop(form["refresh_token"], None)
            if scope is None or self.refuses_renewal:
                return web.json_response({"error": "invalid_grant"}, status=400)
            return web.json_response(self.issue(scope))
        query = self._codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == query["code_challenge"]
        assert form["redirect_uri"] == query["redirect_uri"]
        return web.json_response(self.issue(query.get("scope") or READ))

    async def _revoke(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        self.renewals.pop(token, None)
        return web.Response()

    async def _mcp(self, request: web.Request) -> web.Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        message = await request.json()
        if self.wants_login and token not in self.valid:
            place = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{place}"'})
        writes = message["method"] == "tools/call" and message["params"]["name"] == "write"
        if writes and WRITE not in self.valid[token].split():
            challenge = f'Bearer error="insufficient_scope", scope="{WRITE}"'
            return web.Response(status=403, headers={"WWW-Authenticate": challenge})
        return self._answer(message, token)

    def _answer(self, message: dict[str, Any], token: str) -> web.Response:
        match message["method"]:
            case "initialize":
                about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                result: dict[str, Any] = {**about, "serverInfo": {"name": "tracker", "version": "1"}}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                # It says the token again, as servers should not.
                result = {"content": [{"type": "text", "text": f"you sent {token or 'nothing'}"}]}
            case method if "id" not in message:
                return web.Response(status=202)
            case method:
                error = {"code": -32601, "message": f"no method {method}"}
                return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


@asynccontextmanager
async def tracking() -> AsyncIterator[Tracker]:
    """One that runs."""
    tracker = Tracker()
    runner = web.AppRunner(tracker.app())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        tracker.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield tracker
    finally:
        await runner.cleanup()


def metadata_of(tracker: Tracker) -> dict[str, Any]:
    """What is kept of its authorization server after a login."""
    return {
        "issuer": f"{tracker.url}/",
        "authorization_endpoint": f"{tracker.url}/authorize",
        "token_endpoint": f"{tracker.url}/token",
        "revocation_endpoint": f"{tracker.url}/revoke",
    }


def shown(data: object) -> str:
    """Everything of it, to look for a token."""
    return json.dumps(data, default=repr)
