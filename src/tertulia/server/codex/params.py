"""Reads the parameters of each of Codex's methods, as far as they mean something here.

Fields that are not listed are not refused: Codex does not refuse them either, and clients send many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.conversation_fields import ReasoningEffort
from tertulia.protocol.validation_text import explain_validation
from tertulia.server.client_surface import steering_text

P = TypeVar("P", bound=msgspec.Struct)
ReadSkill = Callable[[str, str], str]
"""The text of the skill with this name and path. InvalidParams where it is none of the thread's."""


class CodexClientInfo(msgspec.Struct, frozen=True):
    """Name and version of the client."""

    name: str
    version: str


class CodexCapabilities(msgspec.Struct, frozen=True, rename="camel"):
    """What it can do, and which notifications it does not want."""

    opt_out_notification_methods: list[str] | None = None


class CodexInitialize(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters that `initialize` takes."""

    client_info: CodexClientInfo
    capabilities: CodexCapabilities | None = None


class ThreadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of a thread that is started or resumed."""

    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    approval_policy: Literal["untrusted", "on-request", "on-failure", "never"] | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: dict[str, Any] | None = None

    def changes(self) -> dict[str, Any]:
        """The options as fields of `conversation/set_context`, without the directory."""
        fields = {
            "model": _full_model_name(self.model, self.model_provider),
            "approval_policy": self.approval_policy,
            "sandbox": self.sandbox,
            "base_instructions": self.base_instructions,
            "user_instructions": self.developer_instructions,
            "reasoning_effort": (self.config or {}).get("model_reasoning_effort"),
        }
        return {name: value for name, value in fields.items() if value is not None}


class StartThread(ThreadOptions, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/start` takes."""

    ephemeral: bool | None = None

    def changes(self) -> dict[str, Any]:
        """An ephemeral thread leaves nothing on the disk."""
        return {**ThreadOptions.changes(self), **({"storage_policy": "none"} if self.ephemeral else {})}


class ResumeThread(ThreadOptions, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/resume` takes."""

    thread_id: str
    exclude_turns: bool = False


class ForkThread(ResumeThread, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/fork` takes."""

    last_turn_id: str | None = None


class ListThreads(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/list` takes."""

    archived: bool | None = None
    cursor: str | None = None
    cwd: str | list[str] | None = None
    limit: int | None = None


class ReadThread(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/read` takes."""

    thread_id: str
    include_turns: bool = False


class ThreadParams(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of methods that only name a thread."""

    thread_id: str


class NameThread(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters that `thread/name/set` takes."""

    thread_id: str
    name: str


class OptionalThread(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of methods that may name a thread."""

    thread_id: str | None = None


class ListSkills(msgspec.Struct, frozen=True):
    """The parameters that `skills/list` takes."""

    cwds: list[str] | None = None


class TurnSandboxPolicy(msgspec.Struct, frozen=True):
    """A sandbox as turns have it; the rest of it is decided by the settings."""

    type: Literal["readOnly", "workspaceWrite", "dangerFullAccess"]


class StartTurn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`turn/start`. What it changes holds for later turns too."""

    thread_id: str
    input: list[dict[str, Any]]
    model: str | None = None
    cwd: str | None = None
    approval_policy: Literal["untrusted", "on-request", "on-failure", "never"] | None = None
    sandbox_policy: TurnSandboxPolicy | None = None
    effort: ReasoningEffort | None = None
    output_schema: dict[str, Any] | None = None
    client_user_message_id: str | None = None

    def changes(self) -> dict[str, Any]:
        """What changes, as fields of `conversation/set_context`."""
        sandbox = None if self.sandbox_policy is None else _SANDBOXES[self.sandbox_policy.type]
        fields = {
            "model": self.model,
            "cwd": self.cwd,
            "approval_policy": self.approval_policy,
            "sandbox": sandbox,
            "reasoning_effort": self.effort,
        }
        return {name: value for name, value in fields.items() if value is not None}


class SteerTurn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `turn/steer` takes."""

    thread_id: str
    expected_turn_id: str
    input: list[dict[str, Any]]
    client_user_message_id: str | None = None


class InterruptTurn(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters that `turn/interrupt` takes."""

    thread_id: str
    turn_id: str


class CodexNoParams(msgspec.Struct, frozen=True):
    """For methods that read no parameters."""


_SANDBOXES = {
    "readOnly": "read-only",
    "workspaceWrite": "workspace-write",
    "dangerFullAccess": "danger-full-access",
}


def read_params(kind: type[P], params: dict[str, Any]) -> P:
    """Parameters of that kind; InvalidParams names the one that is wrong or missing, and repeats no value."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind)[:300]) from None


def input_items(entries: list[dict[str, Any]], skill: ReadSkill) -> list[dict[str, Any]]:
    """A turn's input as items of a message. InvalidParams for what cannot be sent to a model here."""
    return [_item(entry, skill) for entry in entries]


def input_text(entries: list[dict[str, Any]], skill: ReadSkill) -> str:
    """A turn's input where only text is taken."""
    refusal = "input: a turn that runs is steered with text alone; start another turn for pictures"
    return steering_text(input_items(entries, skill), refusal)


def _item(entry: dict[str, Any], skill: ReadSkill) -> dict[str, Any]:
    match entry:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "url": str(url)}:
            return {"type": "image", "image_url": url}
        case {"type": "localImage", "path": str(path)}:
            return {"type": "local_image", "path": path}
        case {"type": "skill", "name": str(name), "path": str(path)}:
            return {"type": "text", "text": skill(name, path)}
        case {"type": "mention", "name": str(name), "path": str(path)}:
            return {"type": "text", "text": f"{name}: {path}"}
        case _:
            raise InvalidParamsError("input: an entry is text, image (with a url), localImage, mention or skill")


def _full_model_name(model: str | None, provider: str | None) -> str | None:
    return f"{provider}/{model}" if model is not None and provider is not None and "/" not in model else model
