"""Reads the body of a run into a chat request and the answers to interrupts.

Such clients send the whole history each time, as those of OpenAI do: which conversation it belongs to, `Chats` finds.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.validation_text import explain_validation
from tertulia.server.openai.requests import ChatRequest, SpokenText

IGNORED = ("tools", "state", "forwardedProps")
"""What a front end sends and has no effect: the conversation has tools of its own, and there is no shared state."""


class _Source(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    value: str = ""
    mime_type: str | None = None


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    source: _Source | None = None


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer", "tool", "activity", "reasoning"]
    content: Any = None


class _Context(msgspec.Struct, frozen=True):
    description: str
    value: str


class ResumeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    thread_id: _Id
    run_id: _Id
    messages: list[_Message]
    context: list[_Context] | None = None
    resume: list[ResumeEntry] | None = None


class RunRequest(msgspec.Struct, frozen=True):
    """What a front end wants to have run."""

    thread_id: str
    run_id: str
    chat: ChatRequest | None
    """None: it only answers interrupts."""
    resume: tuple[ResumeEntry, ...]
    message_id: str
    """The same for the same run, so that one that is sent again runs nothing twice."""
    ignored: tuple[str, ...]


def read_run(body: object, name: str) -> RunRequest:
    """The run in the body, for the conversation or agent of that name. InvalidParams says what is wrong and where."""
    if not isinstance(body, dict):
        raise InvalidParamsError("the body must be an object")
    fields = cast("dict[str, Any]", body)
    try:
        parsed = msgspec.convert(fields, _Body)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, _Body)) from None
    whole = "\0".join((name, parsed.thread_id, parsed.run_id)).encode("utf-8", "surrogatepass")
    resume = tuple(parsed.resume or ())
    return RunRequest(
        parsed.thread_id,
        parsed.run_id,
        None if resume else _chat(parsed, name),
        resume,
        f"ag-ui/{hashlib.sha256(whole).hexdigest()}",
        tuple(key for key in IGNORED if fields.get(key)),
    )


def _chat(body: _Body, name: str) -> ChatRequest:
    instructions: list[str] = []
    spoken: list[SpokenText] = []
    items: list[list[dict[str, Any]]] = []
    for number, message in enumerate(body.messages):
        place = f"messages[{number}]"
        if message.role in ("system", "developer"):
            instructions.append(_plain(message.content, place))
        elif message.role == "user":
            parts = _user_items(message.content, place)
            spoken.append(SpokenText("user", _digested(parts)))
            items.append(parts)
        elif message.role == "assistant" and message.content:
            _add_answer(spoken, items, _plain(message.content, place))
    split = max((n for n, one in enumerate(spoken, 1) if one.role != "user"), default=0)
    if split == len(spoken):
        raise InvalidParamsError("the last message must be a user's: there is nothing to answer")
    context = [{"type": "text", "text": _context_text(body.context)}] if body.context else []
    return ChatRequest(
        model=name,
        instructions="\n\n".join(text for text in instructions if text),
        earlier=tuple(spoken[:split]),
        new=tuple(spoken[split:]),
        items=[*context, *(item for parts in items[split:] for item in parts)],
        stream=True,
        include_usage=False,
        output_schema=None,
        previous=None,
        ignored=(),
        thread=body.thread_id,
    )


def _add_answer(spoken: list[SpokenText], items: list[list[dict[str, Any]]], text: str) -> None:
    """All messages of one answer are one text, as it is remembered; calls and reasoning between them are not."""
    if spoken and spoken[-1].role == "assistant":
        spoken[-1] = SpokenText("assistant", f"{spoken[-1].text}\n\n{text}")
    else:
        spoken.append(SpokenText("assistant", text))
        items.append([])


def _plain(content: Any, place: str) -> str:
    if not isinstance(content, str):
        raise InvalidParamsError(f"{place}.content must be a text")
    return content


def _user_items(content: Any, place: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    try:
        parts = msgspec.convert(content, list[_Part])
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"{place}.content: {explain_validation(error, _Part)}") from None
    return [_item(part, f"{place}.content[{number}]") for number, part in enumerate(parts)]


def _item(part: _Part, place: str) -> dict[str, Any]:
    match part:
        case _Part(type="text", text=str(text)):
            return {"type": "text", "text": text}
        case _Part(type="image", source=_Source(type="url", value=value)):
            return {"type": "image", "image_url": value}
        case _Part(type="image", source=_Source(type="data", value=value, mime_type=str(mime))):
            return {"type": "image", "image_url": f"data:{mime};base64,{value}"}
        case _:
            raise InvalidParamsError(
                f"{place}: a part is a text, or an image with a source of the type url or data; not {part.type!r:.64}"
            )


def _digested(parts: list[dict[str, Any]]) -> str:
    texts = (part.get("text") or hashlib.sha256(part["image_url"].encode()).hexdigest() for part in parts)
    return "\n".join(texts)


def _context_text(entries: list[_Context]) -> str:
    lines = "\n".join(f"{entry.description}: {entry.value}" for entry in entries)
    return f"<page_context>\n{lines}\n</page_context>"
