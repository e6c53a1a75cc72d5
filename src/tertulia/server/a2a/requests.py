"""Reads the parameters of A2A's methods, and writes its errors.

Values come in the JSON of protocol buffers: names in camelCase, and unknown fields are ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from tertulia.errors import (
    BusyError,
    ClosedError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    NotFoundError,
    TertuliaError,
)
from tertulia.protocol.validation_text import explain_validation

Json = dict[str, Any]
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_PICTURE = re.compile(r"image/[a-z0-9.+-]{1,40}")


class A2aError(TertuliaError):
    """An error that A2A has a number of its own for."""

    code = "a2a"

    def __init__(self, message: str, number: int, reason: str) -> None:
        super().__init__(message)
        self.number = number
        self.reason = reason


def task_not_found(task_id: str) -> A2aError:
    """The error for a task that is not known, or not any more."""
    return A2aError(f"there is no task {task_id[:64]!r}", -32001, "TASK_NOT_FOUND")


def unsupported(message: str) -> A2aError:
    """The error for what cannot be done with this task now."""
    return A2aError(message, -32004, "UNSUPPORTED_OPERATION")


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """One part of a message."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    media_type: str | None = None


Id = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
"""An id that a client has made."""


class MessageInput(msgspec.Struct, frozen=True, rename="camel"):
    """A message of the client."""

    message_id: Id
    parts: list[Part]
    role: Literal["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED"] | int = "ROLE_USER"
    """The JSON of protocol buffers has enumerations by name or number; whatever it is, the client speaks."""
    context_id: str | None = None
    task_id: str | None = None

    @property
    def text(self) -> str:
        """The texts of all its parts."""
        return "\n".join(part.text for part in self.parts if part.text)

    @property
    def data(self) -> Json:
        """The object of its first part that has one."""
        found = [cast("Json", part.data) for part in self.parts if isinstance(part.data, dict)]
        return found[0] if found else {}

    def items(self) -> list[Json]:
        """The same as items of a message."""
        return [_item(part, f"message.parts[{number}]") for number, part in enumerate(self.parts)]


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """How a client wants to be answered."""

    return_immediately: bool = False
    history_length: int | None = None
    task_push_notification_config: Json | None = None


class SendParams(msgspec.Struct, frozen=True):
    """The parameters of `SendMessage` and `SendStreamingMessage`."""

    message: MessageInput
    configuration: Configuration = Configuration()


class NamedTask(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `GetTask`, `CancelTask` and `SubscribeToTask`."""

    id: str
    history_length: int | None = None


class ListParams(msgspec.Struct, frozen=True, rename="camel"):
    """Those of `ListTasks`: which tasks, and which page."""

    context_id: str | None = None
    status: str | None = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    include_artifacts: bool = False


P = TypeVar("P", bound=msgspec.Struct)


def read_params(value: object, kind: type[P]) -> P:
    """The parameters of a method. InvalidParamsError says what is wrong with them and where."""
    try:
        return msgspec.convert({} if value is None else value, kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind)) from None


def error_object(error: TertuliaError) -> Json:
    """The error as an answer of JSON-RPC has it."""
    match error:
        case A2aError(number=number, reason=reason):
            pass
        case InvalidRequestError():
            number, reason = -32600, "INVALID_REQUEST"
        case MethodNotFoundError():
            number, reason = -32601, "METHOD_NOT_FOUND"
        case NotFoundError() | ClosedError() | InvalidParamsError():
            number, reason = -32602, error.code.upper()
        case BusyError():
            number, reason = -32004, error.code.upper()
        case _:
            number, reason = -32603, error.code.upper()
    info = {"@type": _INFO, "reason": reason, "domain": "a2a-protocol.org", "metadata": {"code": error.code}}
    return {"code": number, "message": error.message, "data": [info]}


def _item(part: Part, place: str) -> Json:
    picture = part.media_type is not None and _PICTURE.fullmatch(part.media_type) is not None
    match part:
        case Part(text=str(text)):
            return {"type": "text", "text": text}
        case Part(raw=str(raw)) if picture:
            return {"type": "image", "image_url": f"data:{part.media_type};base64,{raw}"}
        case Part(url=str(url)) if picture:
            return {"type": "image", "image_url": url}
        case Part(data=data) if data is not None:
            return {"type": "text", "text": msgspec.json.encode(data).decode()}
        case _:
            raise A2aError(
                f"{place}: a part is a text, data, or a picture (raw or url, with its media type)",
                -32005,
                "CONTENT_TYPE_NOT_SUPPORTED",
            )
