"""How much an agent is told of what was said before: by a table of the settings, by kind of task, by variables.

Later wins: defaults, the table, its part for the kind of task, the variables. Reads no environment by itself; the
variables are handed to it. A value that makes no sense is refused wherever it stands: a switch that was meant to be
off must not be passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import msgspec
from msgspec.structs import asdict, replace

from tertulia.errors import InvalidParamsError
from tertulia.executors.prompt.history_prompt import (
    MAX_CHARS,
    MAX_MESSAGES,
    PER_MESSAGE_MAX_CHARS,
    Mode,
    TaskType,
    build_executor_prompt_with_history,
    check_limit,
    check_word,
)
from tertulia.protocol.inputs import near_names

VARIABLES: Mapping[str, str] = {
    "EXECUTOR_HISTORY_MODE": "mode",
    "EXECUTOR_HISTORY_MAX_MESSAGES": "max_messages",
    "EXECUTOR_HISTORY_MAX_CHARS": "max_chars",
    "EXECUTOR_HISTORY_PER_MESSAGE_MAX_CHARS": "per_message_max_chars",
}
"""Each holds for every kind of task. An empty one is as good as none."""

_LEAST = {"max_messages": 0, "max_chars": 0, "per_message_max_chars": 1}


class TaskHistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is told to an agent that does one kind of task."""

    mode: Mode = "full"
    max_messages: int = MAX_MESSAGES
    max_chars: int = MAX_CHARS["code"]
    per_message_max_chars: int = PER_MESSAGE_MAX_CHARS

    def prompt(self, messages: Sequence[Mapping[str, Any]], current: str, previous_result: object = None) -> str:
        """What `build_executor_prompt_with_history` makes of it."""
        limits = asdict(self)
        return build_executor_prompt_with_history(messages, current, previous_result=previous_result, **limits)


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same for each kind of task."""

    code: TaskHistorySettings = TaskHistorySettings()
    chat: TaskHistorySettings = TaskHistorySettings(max_chars=MAX_CHARS["chat"])

    def of(self, task_type: TaskType | None) -> TaskHistorySettings:
        """What holds for this kind; code, where none is named."""
        return self.chat if task_type == "chat" else self.code


def parse_history_settings(
    table: Mapping[str, object], variables: Mapping[str, str], where: str = "executors.history"
) -> HistorySettings:
    """Parse `{mode, max_messages, max_chars, per_message_max_chars, code = {…}, chat = {…}}`, all of it optional.

    Raises InvalidParams with the key, or the variable, and what was expected.
    """
    kinds = get_args(TaskType)
    general = {name: value for name, value in table.items() if name not in kinds}
    overrides = _named(variables)
    defaults = asdict(HistorySettings())
    by_kind = {
        kind: replace(defaults[kind], **(_parsed(general, where, kinds) | _own(table, kind, where) | overrides))
        for kind in kinds
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
            near = near_names(name, fields, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(fields)}"
            raise InvalidParamsError(f"{where} has no {name!r:.80}; {hint}")
    return {name: _value(f"{where}.{name}", name, value) for name, value in table.items()}


def _named(variables: Mapping[str, str]) -> dict[str, Any]:
    texts = {variable: variables.get(variable, "").strip() for variable in VARIABLES}
    return {VARIABLES[name]: _value(name, VARIABLES[name], _number(text)) for name, text in texts.items() if text}


def _number(text: str) -> object:
    """The number that a variable's text is, or the text; `int` alone would take `1_2` and `٣` for numbers."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else text


def _value(called: str, name: str, value: object) -> Any:
    if name == "mode":
        word = value.replace("-", "_").lower() if isinstance(value, str) else value
        return check_word(called, word, get_args(Mode))
    return check_limit(called, value, _LEAST[name])
