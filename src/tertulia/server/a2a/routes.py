"""The routes of A2A: the cards, and JSON-RPC at `/a2a`. A client that leaves stops nothing: it can ask for its task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tertulia.errors import InvalidRequestError, MethodNotFoundError, NotFoundError, TertuliaError
from tertulia.mcp.server_connection import Spawn
from tertulia.protocol.name_hints import name_hint
from tertulia.server.a2a.card import PROTOCOL_VERSION, agent_card
from tertulia.server.a2a.requests import (
    A2aError,
    Json,
    ListParams,
    NamedTask,
    SendParams,
    error_object,
    read_params,
    unsupported,
)
from tertulia.server.a2a.task import A2aTask
from tertulia.server.a2a.tasks import A2aTasks, push_unsupported
from tertulia.server.http.guard import DECODED_BODY, Receive, Scope, Send
from tertulia.server.http.streaming import StreamedAnswer, until_gone
from tertulia.session.host import Host

_CARD = "/.well-known/agent-card.json"
_PUSH = ("Create", "Get", "List", "Delete")
_NO_CARD = A2aError("there is no extended card; the card is all", -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")


class A2aRoutes:
    """Serves A2A clients the agents of a host."""

    def __init__(self, host: Host, spawn: Spawn) -> None:
        self.tasks = A2aTasks(host, spawn)
        self.routes: list[Route] = [
            Route(_CARD, self._card, methods=["GET"]),
            Route("/a2a", _Calls(self.tasks), methods=["POST"]),
            Route(f"/a2a/{{name}}{_CARD}", self._card, methods=["GET"]),
            Route("/a2a/{name}", _Calls(self.tasks), methods=["POST"]),
        ]

    async def _card(self, request: Request) -> JSONResponse:
        name = request.path_params.get("name", "")
        try:
            await self.tasks.check_name(name)
        except TertuliaError as error:
            return JSONResponse({"error": {"code": error.code, "message": error.message}}, 404)
        return JSONResponse(agent_card(f"{request.base_url}a2a", name, self.tasks.names()))


class _Calls:
    """The ASGI application of JSON-RPC for one agent."""

    def __init__(self, tasks: A2aTasks) -> None:
        self._tasks = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer, body = StreamedAnswer(send), scope.pop(DECODED_BODY, None)
        request_id = _request_id(body)
        # The body, which was read before; after it only the end of the connection comes.
        await receive()
        name = scope["path_params"].get("name", "")
        try:
            await self._tasks.check_name(name)
        except NotFoundError as error:
            await _refuse(answer, request_id, error, status=404)
            return
        try:
            _check_version(scope)
            method, params = _read_request(body)
            await until_gone(receive, self._carry_out(method, params, name, request_id, answer))
        except TertuliaError as error:
            await _refuse(answer, request_id, error)

    async def _carry_out(self, method: str, params: object, name: str, request_id: Any, answer: StreamedAnswer) -> None:
        if method in ("SendStreamingMessage", "SubscribeToTask"):
            task = await (self._send(params, name) if method == "SendStreamingMessage" else self._subscribe(params))
            await _stream(task, request_id, answer)
            return
        call = _METHODS.get(method)
        if call is None:
            raise _unknown(method)
        result = await call(self._tasks, params, name)
        await answer.whole(200, {"jsonrpc": "2.0", "id": request_id, "result": result})

    async def _send(self, params: object, name: str) -> A2aTask:
        return await self._tasks.send(read_params(params, SendParams), name)

    async def _subscribe(self, params: object) -> A2aTask:
        task = self._tasks.find(read_params(params, NamedTask).id)
        if task.is_over:
            raise unsupported(f"the task {task.id} is over: GetTask has all of it")
        return task


async def _send_message(tasks: A2aTasks, params: object, name: str) -> Json:
    read = read_params(params, SendParams)
    task = await tasks.send(read, name)
    if not read.configuration.return_immediately:
        async for _ in task.updates():
            pass
    return {"task": task.as_json(history=read.configuration.history_length)}


async def _get_task(tasks: A2aTasks, params: object, name: str) -> Json:
    read = read_params(params, NamedTask)
    return tasks.find(read.id).as_json(history=read.history_length)


async def _cancel_task(tasks: A2aTasks, params: object, name: str) -> Json:
    task = tasks.find(read_params(params, NamedTask).id)
    if not await task.cancel():
        raise A2aError(f"the task {task.id} is over", -32002, "TASK_NOT_CANCELABLE")
    return task.as_json()


async def _list_tasks(tasks: A2aTasks, params: object, name: str) -> Json:
    return tasks.listed(read_params(params, ListParams))


_METHODS: dict[str, Callable[[A2aTasks, object, str], Awaitable[Json]]] = {
    "SendMessage": _send_message,
    "GetTask": _get_task,
    "CancelTask": _cancel_task,
    "ListTasks": _list_tasks,
}


def _unknown(method: str) -> TertuliaError:
    if method.endswith(("TaskPushNotificationConfig", "TaskPushNotificationConfigs")) and method.startswith(_PUSH):
        return push_unsupported()
    if method == "GetExtendedAgentCard":
        return _NO_CARD
    names = [*_METHODS, "SendStreamingMessage", "SubscribeToTask"]
    return MethodNotFoundError(f"there is no method {method!r:.64}; {name_hint(method, names)}")


async def _stream(task: A2aTask, request_id: Any, answer: StreamedAnswer) -> None:
    await answer.begin()
    async with answer.unbroken():
        async for update in task.updates():
            await answer.data({"jsonrpc": "2.0", "id": request_id, "result": update})
    await answer.end()


async def _refuse(answer: StreamedAnswer, request_id: Any, error: TertuliaError, status: int = 200) -> None:
    value = {"jsonrpc": "2.0", "id": request_id, "error": error_object(error)}
    if answer.has_begun:
        await answer.data(value)
        await answer.end()
    else:
        await answer.whole(status, value)


def _read_request(body: object) -> tuple[str, object]:
    request = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    method = request.get("method")
    if request.get("jsonrpc") != "2.0" or not isinstance(method, str) or "id" not in request:
        raise InvalidRequestError('send one request of JSON-RPC 2.0: {"jsonrpc": "2.0", "id": …, "method": …}')
    return method, request.get("params")


def _request_id(body: object) -> Any:
    request_id = cast("dict[str, Any]", body).get("id") if isinstance(body, dict) else None
    return request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None


def _check_version(scope: Scope) -> None:
    versions = [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == b"a2a-version"]
    if any(version and version.split(".")[0] != "1" for version in versions):
        raise A2aError(f"version {PROTOCOL_VERSION} is spoken here", -32009, "VERSION_NOT_SUPPORTED")
