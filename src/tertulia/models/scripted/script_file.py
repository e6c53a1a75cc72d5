"""Scripts as people write them, in mappings and in YAML or JSON files, read once into frozen replies.

`docs/scripted-model.md` describes the form. Every mistake is an InvalidParams whose sentence begins with the place: the
file, the number of the reply, the key.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.models.scripted.script import (
    DEFAULT_CONTEXT_WINDOW,
    Match,
    ModelScript,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    arguments_text,
)
from tertulia.protocol.inputs import check_text
from tertulia.protocol.items import Usage
from tertulia.protocol.validation_text import TYPE_WORDS, explain_validation

MAX_FILE_BYTES = 1024 * 1024
MAX_REPLIES = 10_000

_Form = Mapping[object, object]


def load_script(path: str | os.PathLike[str]) -> ModelScript:
    """The script in a .yaml, .yml or .json file."""
    name = check_text(os.fspath(path), "the path of a script")
    with _located(name):
        match Path(name).suffix.lower():
            case ".json":
                data = _from_json(_read_bounded(Path(name)))
            case ".yaml" | ".yml":
                data = _from_yaml(_read_bounded(Path(name)))
            case _:
                raise InvalidParamsError("a script is a .yaml, .yml or .json file")
    return parse_script(data, name)


def parse_script(value: object, where: str) -> ModelScript:
    """A script from plain data: a list of replies, or a mapping with `replies` and settings."""
    with _located(where, _ScriptForm):
        form = cast("_Form", {"replies": value}) if isinstance(value, list) else value
        if not isinstance(form, Mapping):
            raise InvalidParamsError("expected a list of replies, or a mapping with `replies`")
        _refuse_unknown_keys(cast("_Form", form), ModelScript.__struct_fields__)
        script = msgspec.convert(form, _ScriptForm)
        if not script.replies:
            raise InvalidParamsError("it has no replies")
        if len(script.replies) > MAX_REPLIES:
            raise InvalidParamsError(f"it has {len(script.replies):,} replies; the limit is {MAX_REPLIES:,}")
    replies = [parse_reply(reply, f"{where}, reply {n}") for n, reply in enumerate(script.replies, 1)]
    return ModelScript(tuple(replies), script.repeat, script.context_window)


def parse_reply(value: object, where: str) -> ScriptedReply:
    """A reply from a text, a mapping, a tool call, or a reply already."""
    with _located(where):
        match value:
            case ScriptedReply():
                return value
            case ScriptedCall():
                return ScriptedReply(tool_calls=(value,))
            case str():
                return ScriptedReply(text=value)
            case Mapping():
                return _from_mapping(cast("_Form", value))
            case _:
                raise InvalidParamsError(f"expected a text or a mapping, not {_kind(value)}")


# ---- mappings


class _ScriptForm(msgspec.Struct):
    replies: list[Any]
    repeat: bool = False
    context_window: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTEXT_WINDOW


_REPLY_KEYS = tuple(key for key in ScriptedReply.__struct_fields__ if key != "gate")
_NESTED = {"error": ScriptedError, "match": Match, "usage": Usage}
_WHEN_A_TEXT = {"error": "message", "match": "contains"}


def _from_mapping(value: _Form) -> ScriptedReply:
    _refuse_unknown_keys(value, _REPLY_KEYS)
    form = dict(value)
    for key, field in _WHEN_A_TEXT.items():
        if isinstance(form.get(key), str):
            form[key] = {field: form[key]}
    for key, struct in _NESTED.items():
        if isinstance(nested := form.get(key), Mapping):
            _refuse_unknown_keys(cast("_Form", nested), struct.__struct_fields__, f"{key}: ")
    if isinstance(calls := form.get("tool_calls"), list | tuple):
        form["tool_calls"] = [_call_form(call, n) for n, call in enumerate(cast("Sequence[object]", calls))]
    return msgspec.convert(form, ScriptedReply)


def _call_form(value: object, position: int) -> object:
    if not isinstance(value, Mapping):
        return value
    form = dict(cast("_Form", value))
    _refuse_unknown_keys(form, ScriptedCall.__struct_fields__, f"tool_calls[{position}]: ")
    arguments = form.get("arguments")
    if not isinstance(arguments, Mapping | str | None):
        kind = _kind(arguments)
        raise InvalidParamsError(f"tool_calls[{position}].arguments: expected a mapping or a text, not {kind}")
    return form | {"arguments": arguments_text(cast("_Form | str | None", arguments))}


def _refuse_unknown_keys(form: _Form, fields: Sequence[str], place: str = "") -> None:
    for key in form:
        if key not in fields:
            near = difflib.get_close_matches(_shown(str(key), 40), fields, 1)
            advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(fields)}"
            raise InvalidParamsError(f"{place}unknown key `{_shown(str(key), 40)}`; {advice}")


# ---- files


def _read_bounded(path: Path) -> bytes:
    try:
        # A pipe or a device would block, or never end.
        if path.exists() and not path.is_file():
            raise InvalidParamsError("it is not a file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidParamsError(f"it cannot be read ({error.strerror})") from None
    except ValueError:
        raise InvalidParamsError("it cannot be read: this is not a path") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidParamsError(f"it is larger than {MAX_FILE_BYTES:,} bytes, the limit of a script")
    if not content.strip():
        raise InvalidParamsError("it is empty")
    return content


def _from_json(content: bytes) -> object:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidParamsError(f"it is not JSON{_where_broken(content)}") from None
    except RecursionError:
        raise InvalidParamsError("it is nested too deeply") from None


def _where_broken(content: bytes) -> str:
    """The place in brackets, where Python's own parser finds one."""
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return f" (at line {error.lineno}, column {error.colno})"
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f" (at line {line}: not UTF-8)"
    except (ValueError, RecursionError):
        pass
    return ""


def _from_yaml(content: bytes) -> object:
    # Not at the top: loading YAML takes as long as starting the rest, and few have a script at all.
    from tertulia.models.plain_yaml import load_plain

    try:
        return load_plain(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidParamsError("it is not text in UTF-8") from None


# ---- error texts


@contextmanager
def _located(where: str, kind: type[msgspec.Struct] = ScriptedReply) -> Generator[None]:
    """Put the place in front of an error's sentence. `kind`: what a value is converted to inside the block."""
    try:
        yield
    except msgspec.ValidationError as error:
        sentence = explain_validation(error, kind, _WORDS)
    except InvalidParamsError as error:
        sentence = error.message
    else:
        return
    raise InvalidParamsError(f"{where}: {_shown(sentence, 300)}")


def _shown(text: str, limit: int) -> str:
    """One line of bounded length that any terminal and any encoding can take."""
    line = " ".join(text[: limit + 1].encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


_WORDS = {**TYPE_WORDS, "object": "a mapping"}


def _kind(value: object) -> str:
    name = type(value).__name__
    return _WORDS.get(name, f"`{name}`")
