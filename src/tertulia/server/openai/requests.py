"""Reads the bodies of `/v1/chat/completions` and `/v1/responses` into one frozen request.

Such clients send the whole history each time: what follows the last answer in it is new. Not here: which conversation
the history belongs to, see `chats`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.protocol.validation_text import explain_validation

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
_ROLES_OF_INSTRUCTIONS = ("system", "developer")


class SpokenText(msgspec.Struct, frozen=True):
    """One message of a client's history."""

    role: str
    text: str


class ChatRequest(msgspec.Struct, frozen=True):
    """What a client of either protocol wants answered."""

    model: str
    """`conversation:NAME`, or the name of an agent."""
    instructions: str
    """What the client sends as system and developer messages."""
    earlier: tuple[SpokenText, ...]
    """The history up to the last answer in it."""
    new: tuple[SpokenText, ...]
    """The messages that follow that answer."""
    items: list[dict[str, Any]]
    """The same as items of a message, pictures included."""
    stream: bool
    include_usage: bool
    """Whether the last piece of a streamed chat completion tells the tokens."""
    output_schema: dict[str, Any] | None
    previous: str | None
    """The response that this one follows, for clients that do not send the history."""
    ignored: tuple[str, ...]
    """The fields that the client sent and that have no effect here: the conversation decides about them."""
    thread: str = ""
    """The client's own name of the chat, where its protocol has one: two that begin alike are not the same."""


# ---- messages


class _Picture(msgspec.Struct, frozen=True):
    url: str


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    image_url: str | _Picture | None = None


class _Said(msgspec.Struct, frozen=True):
    """A message of a chat, or an item of a response's input."""

    role: Role | None = None
    content: str | list[_Part] | None = None
    type: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Any = None


class _History:
    """Collects the messages of a request."""

    def __init__(self) -> None:
        self.instructions: list[str] = []
        self.spoken: list[SpokenText] = []
        self.items: list[list[dict[str, Any]]] = []

    def add(self, message: _Said, place: str) -> None:
        """Read the next one. InvalidParams names the place of what cannot be read."""
        if message.role is None:
            self._add_call(message, place)
        elif message.role in _ROLES_OF_INSTRUCTIONS:
            text, _ = _read_content(message.content, place)
            self.instructions.append(text)
        else:
            text, items = _read_content(message.content, place)
            self._append(message.role, text, items)

    def _add_call(self, message: _Said, place: str) -> None:
        """A call, its output, or reasoning, of another program's answer."""
        match message.type:
            case "function_call" | "custom_tool_call":
                self._append("assistant", f"(called {message.name})", [])
            case "function_call_output" | "custom_tool_call_output":
                output = message.output
                self._append("tool", output if isinstance(output, str) else _as_json(output), [])
            case "reasoning" | "item_reference":
                pass
            case _:
                raise InvalidParamsError(f"{place} needs a `role`: system, developer, user or assistant")

    def _append(self, role: str, text: str, items: list[dict[str, Any]]) -> None:
        pictures = [item["image_url"] for item in items if item["type"] == "image"]
        digests = "".join(f"\n[image {hashlib.sha256(url.encode()).hexdigest()[:16]}]" for url in pictures)
        self.spoken.append(SpokenText(role, text + digests))
        self.items.append(items)

    def split(self) -> int:
        """How many messages end with the last answer. InvalidParams where none of a user's follows."""
        end = max((n for n, spoken in enumerate(self.spoken, 1) if spoken.role != "user"), default=0)
        if end == len(self.spoken):
            raise InvalidParamsError("the last message must be a user's: there is nothing to answer")
        return end


def _read_content(content: str | list[_Part] | None, place: str) -> tuple[str, list[dict[str, Any]]]:
    parts = [_Part("text", content)] if isinstance(content, str) else content or []
    items = [_read_part(part, f"{place}.content[{n}]") for n, part in enumerate(parts)]
    return "\n".join(item["text"] for item in items if item["type"] == "text"), items


def _read_part(part: _Part, place: str) -> dict[str, Any]:
    match part.type:
        case "text" | "input_text" | "output_text" | "refusal" if part.text is not None:
            return {"type": "text", "text": part.text}
        case "image_url" | "input_image" if part.image_url is not None:
            url = part.image_url if isinstance(part.image_url, str) else part.image_url.url
            return {"type": "image", "image_url": url}
        case _:
            raise InvalidParamsError(
                f"{place}: a part is a text (text, input_text) or a picture (image_url, input_image), "
                f"not {part.type!r:.64}"
            )


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ---- bodies

_REFUSED = {
    "tools": "the conversation has tools of its own; give it more with the settings, an agent or an MCP server",
    "functions": "the conversation has tools of its own; give it more with the settings, an agent or an MCP server",
    "logprobs": "no conversation has them",
    "audio": "a conversation takes texts and pictures and answers with text",
    "background": "open a WebSocket and say `conversation/message` with `detach`",
    "conversation": "name a conversation as the model, `conversation:NAME`, or give previous_response_id",
    "prompt": "give instructions and input",
    "web_search_options": "the conversation has tools of its own",
}
"""What would change the answer and cannot be done, with what to do instead."""


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None


class _Format(msgspec.Struct, frozen=True):
    """What an answer is to be; in a chat completion the schema is one level deeper."""

    type: str = ""
    schema: dict[str, Any] | None = None
    json_schema: _Format | None = None


class _ChatBody(_Common, frozen=True, kw_only=True):
    """The body of a chat completion, as far as it is used."""

    messages: list[_Said]
    response_format: _Format | None = None


class _TextOptions(msgspec.Struct, frozen=True):
    format: _Format | None = None


class _ResponseBody(_Common, frozen=True, kw_only=True):
    """The body of a response, as far as it is used."""

    input: str | list[_Said]
    instructions: str | None = None
    previous_response_id: str | None = None
    text: _TextOptions | None = None


def read_chat(body: object) -> ChatRequest:
    """The request in the body of a chat completion. InvalidParams says what is wrong with it and where."""
    parsed = _convert(body, _ChatBody)
    history = _History()
    for number, message in enumerate(parsed.messages):
        history.add(message, f"messages[{number}]")
    form = parsed.response_format
    if form is not None and form.json_schema is not None:
        form = replace(form.json_schema, type=form.type)
    return _request(parsed, body, history, _output_schema(form, "response_format"))


def read_response(body: object) -> ChatRequest:
    """The request in the body of a response. InvalidParams says what is wrong with it and where."""
    parsed = _convert(body, _ResponseBody)
    history = _History()
    if parsed.instructions:
        history.instructions.append(parsed.instructions)
    spoken = [_Said("user", parsed.input)] if isinstance(parsed.input, str) else parsed.input
    for number, message in enumerate(spoken):
        history.add(message, f"input[{number}]")
    form = None if parsed.text is None else parsed.text.format
    return _request(parsed, body, history, _output_schema(form, "text.format"), parsed.previous_response_id)


def _request(
    parsed: _Common, body: Any, history: _History, schema: dict[str, Any] | None, previous: str | None = None
) -> ChatRequest:
    split = history.split()
    if previous is not None and split:
        raise InvalidParamsError("give previous_response_id or the answers themselves, not both")
    return ChatRequest(
        model=parsed.model,
        instructions="\n\n".join(text for text in history.instructions if text),
        earlier=tuple(history.spoken[:split]),
        new=tuple(history.spoken[split:]),
        items=[item for items in history.items[split:] for item in items],
        stream=bool(parsed.stream),
        include_usage=parsed.stream_options is not None and bool(parsed.stream_options.include_usage),
        output_schema=schema,
        previous=previous,
        ignored=tuple(sorted(key for key in body if key not in parsed.__struct_fields__ and body[key] is not None)),
    )


def _output_schema(form: _Format | None, place: str) -> dict[str, Any] | None:
    match form:
        case None | _Format(type="text"):
            return None
        case _Format(type="json_object"):
            return {"type": "object"}
        case _Format(type="json_schema") if form.schema is not None:
            return form.schema
        case _:
            raise InvalidParamsError(f"{place} must be text, json_object, or json_schema with a `schema`")


C = TypeVar("C", bound=_Common)


def _convert(body: object, kind: type[C]) -> C:
    if not isinstance(body, dict):
        raise InvalidParamsError("the body must be an object")
    fields = cast("dict[str, Any]", body)
    for name, instead in _REFUSED.items():
        if fields.get(name):
            raise InvalidParamsError(f"`{name}` cannot be used here: {instead}")
    if fields.get("n") not in (None, 1):
        raise InvalidParamsError("`n` must be 1: a conversation gives one answer")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind)) from None
