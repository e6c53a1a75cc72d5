"""Describes the HTTP interface of `tertulia serve` in OpenAPI: for tools that make clients, proxies and tests of it.

Only the outside: what is spoken on `/ws` is in `server/api_schema.py`, and what is spoken on `/mcp` is MCP.
"""

from __future__ import annotations

from typing import Any

from tertulia.version import __version__

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_JSON, _EVENTS, _PLAIN, _PAGE = "application/json", "text/event-stream", "text/plain", "text/html"
_HEADERS = ("Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")


def openapi_document() -> Json:
    """The document. Its parts are shared: copy it before you change anything."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tertulia",
            "version": __version__,
            "description": "Requests bring the bearer token, and call the server by a name that it knows.",
        },
        "security": [{"bearer": []}],
        "paths": {
            "/": {"get": _public("page", "The dashboard.", _PAGE_ANSWERS)},
            "/health": {"get": _public("health", "What runs.", {"200": _answer("It runs.", _JSON, "Health")})},
            "/metrics": {"get": _operation("metrics", "What sessions do, for Prometheus.", _SERIES)},
            "/openapi.json": {"get": _operation("openapi", "This.", {"200": _answer("OpenAPI 3.1.", _JSON, "Any")})},
            "/ws": {"get": _operation("connect", "JSON-RPC 2.0 over a WebSocket.", _UPGRADED)},
            "/v1/models": {"get": _operation("models", "What OpenAI clients can name as a model.", _MODELS)},
            "/v1/models/{model}": {
                "parameters": [{"name": "model", "in": "path", "required": True, "schema": _TEXT}],
                "get": _operation("model", "One of them.", {**_MODELS, "404": _NO_MODEL}),
            },
            "/v1/chat/completions": {"post": _ask("chat", "A chat completion of OpenAI's API.", "Chat")},
            "/v1/responses": {"post": _ask("respond", "A response of OpenAI's API.", "Response")},
            "/ag-ui": {"post": _ask("run", "A run of the root conversation, as AG-UI events.", "Run")},
            "/ag-ui/{name}": {
                "parameters": [_NAME],
                "post": _ask("run_named", "A run of `conversation:NAME` or of an agent, as AG-UI events.", "Run"),
            },
            "/.well-known/agent-card.json": {"get": _operation("card", "The agent card of A2A.", _CARD)},
            "/a2a": {"post": _rpc("a2a", "A request of A2A.")},
            "/a2a/{name}": {"parameters": [_NAME], "post": _rpc("a2a_named", "The same to one agent.")},
            "/a2a/{name}/.well-known/agent-card.json": {
                "parameters": [_NAME],
                "get": _operation("card_named", "Its card.", {**_CARD, "404": _NO_MODEL}),
            },
            "/mcp": {
                "parameters": [_header(name) for name in _HEADERS],
                "post": _post(),
                "get": _operation("follow", "Notifications of an MCP session.", _FOLLOWED),
                "delete": _operation("end", "End an MCP session.", _ENDED),
            },
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _operation(name: str, summary: str, answers: Json) -> Json:
    return {"operationId": name, "summary": summary, "responses": {**_REFUSED, **answers}}


def _public(name: str, summary: str, answers: Json) -> Json:
    """An operation that needs no token; with one it may tell more."""
    return {**_operation(name, summary, answers), "security": [{}, {"bearer": []}]}


def _post() -> Json:
    body: Json = {"required": True, "content": {_JSON: {"schema": _reference("Message")}}}
    return {**_operation("mcp", "One message of MCP.", _POSTED), "requestBody": body}


def _ask(name: str, summary: str, schema: str) -> Json:
    body: Json = {"required": True, "content": {_JSON: {"schema": _reference(schema)}}}
    return {**_operation(name, summary, _ASKED), "requestBody": body}


def _rpc(name: str, summary: str) -> Json:
    # What is no request of JSON-RPC is answered as JSON-RPC does, with an error and 200.
    body: Json = {"required": True, "content": {_JSON: {"schema": {}}}}
    return {**_operation(name, summary, _CALLED), "requestBody": body}


def _answer(description: str, kind: str, schema: str) -> Json:
    return {"description": description, "content": {kind: {"schema": _reference(schema)}}}


def _answer_or_events(description: str, schema: str) -> Json:
    content = {_JSON: {"schema": _reference(schema)}, _EVENTS: {"schema": _reference("Event")}}
    return {"description": description, "content": content}


def _header(name: str) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": _TEXT}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_SERIES: Json = {"200": {"description": "All series.", "content": {_PLAIN: {"schema": _TEXT}}}}
_REFUSED: Json = {
    "400": _answer("A request that can be read in two ways, or not at all.", _JSON, "Refusal"),
    "401": _answer("No token, or a wrong one.", _JSON, "Refusal"),
    "403": _answer("A page of another origin.", _JSON, "Refusal"),
    "421": _answer("The server is not called so.", _JSON, "Refusal"),
}
_PAGE_ANSWERS: Json = {
    "200": _answer("A page. Its scripts and styles need no token either.", _PAGE, "Text"),
    "304": {"description": "It is the one that the client has."},
}
_UPGRADED: Json = {
    "101": {"description": "From here on it is a WebSocket."},
    "404": _answer("It was not asked for a WebSocket.", _PLAIN, "Text"),
    "503": _answer("Too many clients are there.", _JSON, "Refusal"),
}
_STALE: Json = {
    "400": _answer("No session is named, or the request is refused.", _JSON, "Error"),
    "404": _answer("There is no such session.", _JSON, "Error"),
    "501": _answer("MCP is not installed.", _JSON, "Refusal"),
    "503": _answer("Too many clients are there, or the server ends.", _JSON, "Error"),
}
_SESSIONLESS: Json = {"405": {"description": "That version of MCP has no sessions."}}
_ENDED: Json = {"200": {"description": "It has ended."}, **_STALE, **_SESSIONLESS}
_FOLLOWED: Json = {
    "200": _answer("Messages, as long as the session lasts.", _EVENTS, "Event"),
    **_STALE,
    **_SESSIONLESS,
    "406": _answer("Events are not accepted.", _JSON, "Error"),
    "409": _answer("Another client follows the session already.", _JSON, "Error"),
}
_NO_MODEL: Json = _answer("There is no such conversation, agent or earlier response.", _JSON, "Refusal")
_MODELS: Json = {"200": _answer("Conversations and agents.", _JSON, "Any")}
_CARD: Json = {"200": _answer("The card.", _JSON, "Any")}
_NAME: Json = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
_UNREAD: Json = {
    "408": _answer("The body did not come in time.", _JSON, "Refusal"),
    "413": _answer("The body is too large.", _JSON, "Refusal"),
    "415": _answer("The body is not said to be plain JSON.", _JSON, "Refusal"),
}
_ASKED: Json = {
    "200": _answer_or_events("The answer, whole or in pieces.", "Any"),
    "400": _answer("The body cannot be read, or asks for what a conversation does not have.", _JSON, "Error"),
    "404": _NO_MODEL,
    "409": _answer("It is busy.", _JSON, "Refusal"),
    "429": _answer("A limit is reached.", _JSON, "Refusal"),
    "500": _answer("The task failed.", _JSON, "Refusal"),
    **_UNREAD,
}
_CALLED: Json = {
    "200": _answer_or_events("The answer, an error of JSON-RPC among them, or a stream of answers.", "Any"),
    "400": _answer("The body cannot be read.", _JSON, "Error"),
    "404": _answer("There is no such agent.", _JSON, "Error"),
    **_UNREAD,
}
_POSTED: Json = {
    "200": _answer_or_events("The answer, alone or after what is said on the way.", "Message"),
    "202": {"description": "It needs no answer."},
    **_STALE,
    "406": _answer("Both JSON and events must be accepted.", _JSON, "Error"),
    **_UNREAD,
}

_ID: Json = {"type": ["string", "integer"]}
_RPC: Json = {"const": "2.0"}
_FAULT: Json = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": _TEXT, "data": {}},
}
_SCHEMAS: Json = {
    "Any": {"type": "object"},
    "Text": _TEXT,
    "Event": {
        "type": "object",
        "description": "Each of the stream. Its data is a message.",
        "properties": {"event": _TEXT, "id": _TEXT, "data": {**_TEXT, "contentMediaType": _JSON}},
    },
    "Health": {
        "type": "object",
        "description": "Without the token the status alone.",
        "required": ["status"],
        "properties": {"status": {"const": "ok"}, "version": _TEXT, "sessions": _COUNT, "clients": _COUNT},
    },
    "Refusal": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"type": "object", "required": ["code", "message"], "properties": {"message": _TEXT}},
        },
    },
    "Chat": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {"model": _TEXT, "messages": {"type": "array", "items": {"type": "object"}}},
    },
    "Response": {
        "type": "object",
        "required": ["model", "input"],
        "properties": {"model": _TEXT, "input": {"type": ["string", "array"]}},
    },
    "Run": {
        "type": "object",
        "required": ["threadId", "runId", "messages"],
        "properties": {
            "threadId": _TEXT,
            "runId": _TEXT,
            "messages": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Error": {"anyOf": [_reference("Failure"), _reference("Refusal")]},
    "Message": {"oneOf": [_reference(name) for name in ("Request", "Notification", "Result", "Failure")]},
    "Request": {
        "type": "object",
        "required": ["jsonrpc", "id", "method"],
        "properties": {"jsonrpc": _RPC, "id": _ID, "method": _TEXT, "params": {"type": "object"}},
    },
    "Notification": {
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {"jsonrpc": _RPC, "method": _TEXT, "params": {"type": "object"}},
        "not": {"required": ["id"]},
    },
    "Result": {
        "type": "object",
        "required": ["jsonrpc", "id", "result"],
        "properties": {"jsonrpc": _RPC, "id": _ID, "result": {"type": "object"}},
        "not": {"required": ["method"]},
    },
    "Failure": {
        "type": "object",
        "required": ["jsonrpc", "id", "error"],
        "properties": {"jsonrpc": _RPC, "id": {"type": ["string", "integer", "null"]}, "error": _FAULT},
        "not": {"anyOf": [{"required": ["method"]}, {"required": ["result"]}]},
    },
}
