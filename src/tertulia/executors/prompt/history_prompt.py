"""Builds the prompt for an executor that does not remember the conversation, from the messages of its history.

Pure: the caller loads the messages, nothing is looked up, and only numbers are logged. A table of the settings, its
part for the kind of task, and environment variables set how much history the prompt has; the later win. An invalid
value is refused in each of these places: a switch that was meant to be off must not be ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict, cast, get_args

import msgspec
from msgspec.structs import asdict, replace

from tertulia.errors import InvalidParamsError
from tertulia.executors.prompt.history_section import (
    CURRENT,
    PREVIOUS,
    EarlierMessage,
    HistorySection,
    HistorySectionLimits,
    Role,
    escape_headings,
    heading,
    history_section,
    remove_controls,
    without_label,
)
from tertulia.executors.result_text import clip, is_plain_text, result_text, value_text
from tertulia.history.segment import is_message
from tertulia.history.view import HistoryView
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import AssistantMessage, ImagePart, Item, Summary, UserMessage
from tertulia.protocol.name_hints import name_hint

_SUMMARY = "[Summary of what was said before]"
Mode = Literal["full", "last_round", "last_assistant", "off"]
TaskType = Literal["code", "chat"]
MAX_MESSAGES = 12
PER_MESSAGE_MAX_CHARS = 4_000
MAX_CHARS: Mapping[TaskType, int] = {"code": 40_000, "chat": 20_000}
MOST = 1_000_000_000_000
"""The upper limit of every number: more than there can be of anything."""
_GAP = "\n\n"
_LEAST = {"max_messages": 0, "max_chars": 0, "per_message_max_chars": 1}
VARIABLES: Mapping[str, str] = {f"EXECUTOR_HISTORY_{name.upper()}": name for name in ("mode", *_LEAST)}
"""Each variable holds for every kind of task. An empty one counts as not set."""


class TranscriptMessage(TypedDict, total=False):
    """One message, as `build_executor_prompt_with_history` takes it."""

    role: str
    text: str
    username: str


def transcript(view: HistoryView, *, before: ItemId | None = None, limit: int | None = None) -> list[TranscriptMessage]:
    """The newest messages, oldest first, without injected texts, reasoning and tool calls.

    `before` is the item of the current message: it and everything after it is left out. A summary stands for the
    messages it replaced. Takes time for the returned messages only.
    """
    messages = filter(None, map(_message, _newest_first(view, before)))
    newest = list(islice(messages, limit))
    newest.reverse()
    return newest


def _newest_first(view: HistoryView, before: ItemId | None) -> Iterator[Item]:
    """The items before that item, newest first; all items, where it is no longer in the history."""
    items = (item for segment in view.newest_first() for item in reversed(segment.items))
    if before is None or any(item.id == before for item in items):
        return items
    return _newest_first(view, None)


def _message(item: Item) -> TranscriptMessage | None:
    match item:
        case Summary(text=text):
            return TranscriptMessage(role="assistant", text=f"{_SUMMARY}\n{text}")
        case UserMessage(sender=str() as sender) if is_message(item):
            return TranscriptMessage(role="user", text=_text(item), username=sender)
        case UserMessage() if is_message(item):
            return TranscriptMessage(role="user", text=_text(item))
        case AssistantMessage():
            return TranscriptMessage(role="assistant", text=_text(item))
        case _:
            return None


def _text(message: UserMessage | AssistantMessage) -> str:
    """The text of a message, with a placeholder for each picture."""
    pictures = sum(isinstance(part, ImagePart) for part in message.parts)
    return "\n".join(filter(None, (message.text, *["[picture]"] * pictures)))


_log = logging.getLogger(__name__)


def build_executor_prompt_with_history(
    messages: Sequence[Mapping[str, Any]],
    current_message: str,
    *,
    previous_result: object = None,
    mode: Mode = "full",
    task_type: TaskType = "code",
    max_messages: int = MAX_MESSAGES,
    max_chars: int | None = None,
    per_message_max_chars: int = PER_MESSAGE_MAX_CHARS,
) -> str:
    """The prompt for an agent without memory: *Conversation History*, *Current User Message* and, for a step of a
    pipeline, *Previous execution result*.

    The current message is never cut or changed. With nothing to tell, and with mode `off`, it is the whole prompt,
    byte for byte. The limits hold in this order: `max_messages`, `per_message_max_chars`, `max_chars`.

    Args:
        messages: The earlier ones, oldest first: {role: user | assistant, text?, result?, username?}. Other roles are
            left out. If the current message is among them as the last that was asked, history ends before it.
        current_message: What the agent is asked now.
        previous_result: What the step before gave. If it is not a text, it is told as JSON without its control
            fields, in at most `max_chars`.
        mode: How much of the history is told: `full`, `last_round`, `last_assistant` or `off`.
        task_type: `code` or `chat`; it chooses the default of `max_chars`.
        max_messages: How many messages of the history at most.
        max_chars: Characters of the history section at most; None: 40,000 for code, 20,000 for chat.
        per_message_max_chars: Characters of one message at most.

    Returns:
        The prompt.

    Raises:
        InvalidParamsError: A value is not one that the parameter can have.
    """
    _check_text("current_message", current_message)
    limits = _limits(mode, task_type, max_messages, max_chars, per_message_max_chars)
    if mode == "off":
        return current_message
    previous = result_text(previous_result).strip()
    earlier = _before_current([*_earlier_messages(messages)], current_message, previous)
    section = history_section(_select_by_mode(earlier, mode), limits)
    # A text is a step's whole answer and never cut. A result that was serialised here is limited like a history.
    most = len(previous) if is_plain_text(previous_result) else max(limits.max_chars, limits.per_message_max_chars)
    prompt = _joined(section, current_message, clip(previous, most))
    _log.info(
        "executor prompt: mode %s, %d of %d earlier messages, truncated: %s, previous result: %s, %d characters",
        mode, section.messages, len(earlier), section.truncated, bool(previous), len(prompt),
    )  # fmt: skip
    return prompt


def check_limit(name: str, value: object, least: int) -> int:
    """The value, if it is a whole number of at least `least`; else InvalidParamsError names it."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        shown = f"{value!r:.80}" if not isinstance(value, int) or abs(value) <= MOST else "a larger one"
        raise InvalidParamsError(f"{name} must be a whole number from {least} to {MOST:,}, not {shown}")
    return value


def check_word(name: str, value: object, words: tuple[str, ...]) -> str:
    """The value, if it is one of the words; else InvalidParamsError lists them."""
    if value not in words:
        raise InvalidParamsError(f"{name} must be one of {', '.join(words)}, not {value!r:.80}")
    return cast("str", value)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidParamsError(f"{name} must be a text")


def _limits(
    mode: object, task_type: object, messages: object, chars: object, per_message: object
) -> HistorySectionLimits:
    check_word("mode", mode, get_args(Mode))
    kind = cast("TaskType", check_word("task_type", task_type, get_args(TaskType)))
    return HistorySectionLimits(
        check_limit("max_messages", messages, 0),
        MAX_CHARS[kind] if chars is None else check_limit("max_chars", chars, 0),
        check_limit("per_message_max_chars", per_message, 1),
    )


def _joined(section: HistorySection, current: str, previous: str) -> str:
    if not section.text and not previous:
        return current
    history = [section.text] if section.text else []
    result = [heading(PREVIOUS), escape_headings(remove_controls(previous))] if previous else []
    return _GAP.join((*history, heading(CURRENT), current, *result))


# ── what was said ────────────────────────────────────────────────────────────────────────────────────────────────


def _earlier_messages(messages: Iterable[object]) -> Iterable[EarlierMessage]:
    """The messages of users and assistants that have a text."""
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidParamsError(f"messages[{number}] must be a table with a role and a text or a result")
        read = _read(cast("Mapping[str, object]", message), f"messages[{number}]")
        if read is not None and without_label(read):
            yield read


def _read(message: Mapping[str, object], where: str) -> EarlierMessage | None:
    role, text, username = (message.get(name) for name in ("role", "text", "username"))
    if not isinstance(role, str):
        raise InvalidParamsError(f"{where}.role must be user or assistant")
    if not isinstance(text, str | None) or not isinstance(username, str | None):
        raise InvalidParamsError(f"{where}: text and username must be texts")
    if role.lower() not in get_args(Role):
        return None
    result = message.get("result")
    words = value_text(result) if role.lower() == "assistant" else ""
    for other in (text or "", result_text(result)):
        words = words if words.strip() else other
    return EarlierMessage(cast("Role", role.lower()), words, username)


def _before_current(earlier: list[EarlierMessage], current: str, previous: str) -> list[EarlierMessage]:
    """The history without the current message, and without the previous result, which has its own section.

    A current message that repeats an earlier one counts as new: the earlier answer stays, unless it is that result.
    """
    before = earlier[:]
    if previous and before and before[-1].role == "assistant" and without_label(before[-1]) == previous:
        before.pop()
        last_user = max((place for place, message in enumerate(before) if message.role == "user"), default=None)
        if last_user is not None and _is_same(before[last_user], current):
            del before[last_user:]
    elif before and before[-1].role == "user" and _is_same(before[-1], current):
        before.pop()
    return before


def _is_same(message: EarlierMessage, current: str) -> bool:
    return without_label(message) == without_label(EarlierMessage("user", current, message.username))


def _select_by_mode(earlier: Sequence[EarlierMessage], mode: Mode) -> Sequence[EarlierMessage]:
    """The messages that a mode selects."""
    if mode == "full":
        return earlier
    if mode == "last_assistant":
        return [message for message in earlier if message.role == "assistant"][-1:]
    users = [place for place, message in enumerate(earlier) if message.role == "user"]
    return earlier[users[-1] :] if users else earlier


class TaskHistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much history the prompt for one kind of task has."""

    mode: Mode = "full"
    max_messages: int = MAX_MESSAGES
    max_chars: int = MAX_CHARS["code"]
    per_message_max_chars: int = PER_MESSAGE_MAX_CHARS

    def prompt(self, messages: Sequence[Mapping[str, Any]], current: str, previous_result: object = None) -> str:
        """The prompt of `build_executor_prompt_with_history` with these settings."""
        limits = asdict(self)
        return build_executor_prompt_with_history(messages, current, previous_result=previous_result, **limits)


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much history a prompt has, for each kind of task."""

    code: TaskHistorySettings = TaskHistorySettings()
    chat: TaskHistorySettings = TaskHistorySettings(max_chars=MAX_CHARS["chat"])

    def of(self, task_type: TaskType | None) -> TaskHistorySettings:
        """The settings for this kind of task; those of `code` where it is None."""
        return self.chat if task_type == "chat" else self.code


def parse_history_settings(table: Mapping[str, object], where: str = "executors.history") -> HistorySettings:
    """Parse `{mode, max_messages, max_chars, per_message_max_chars, code = {…}, chat = {…}}`, all of it optional.

    Raises InvalidParams with the key and what was expected.
    """
    kinds = get_args(TaskType)
    general = {name: value for name, value in table.items() if name not in kinds}
    defaults = asdict(HistorySettings())
    by_kind = {
        kind: replace(defaults[kind], **(_parsed(general, where, kinds) | _own(table, kind, where))) for kind in kinds
    }
    return HistorySettings(**by_kind)


def _own(table: Mapping[str, object], kind: str, where: str) -> dict[str, Any]:
    own = table.get(kind, {})
    if not isinstance(own, Mapping):
        raise InvalidParamsError(f"{where}.{kind} must be a table")
    return _parsed(cast("Mapping[str, object]", own), f"{where}.{kind}", ())


def _parsed(table: Mapping[str, object], where: str, also: tuple[str, ...]) -> dict[str, Any]:
    fields = (*TaskHistorySettings.__struct_fields__, *also)
    for name in table:
        if name not in fields:
            raise InvalidParamsError(f"{where} has no {name!r:.80}; {name_hint(name, fields)}")
    return {name: _value(f"{where}.{name}", name, value) for name, value in table.items()}


def read_history_variables(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The values of the variables that are set, as a table that holds for every kind of task.

    Raises InvalidParamsError with the variable and what was expected.
    """
    texts = {variable: variables.get(variable, "").strip() for variable in VARIABLES}
    tables: dict[str, dict[str, Any]] = {}
    for variable, text in texts.items():
        if text:
            name = VARIABLES[variable]
            value = {name: _value(variable, name, _number(text))}
            tables[variable] = {**value, **dict.fromkeys(get_args(TaskType), value)}
    return tables


def _number(text: str) -> object:
    """The number in a variable's text, or the text itself; `int` alone would accept `1_2` and `٣`."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else text


def _value(called: str, name: str, value: object) -> Any:
    if name == "mode":
        word = value.replace("-", "_").lower() if isinstance(value, str) else value
        return check_word(called, word, get_args(Mode))
    return check_limit(called, value, _LEAST[name])
