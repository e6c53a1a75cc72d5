"""What is typed behind `/undo` and `/diff`, and the answers as lines for people: of every surface that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.display_text import visible

USAGE = "/undo [yes] [force] [to ID] [PATH …]"
_VERBS = {"added": "comes back", "deleted": "goes", "modified": "changes back"}
_DONE = {"added": "came back", "deleted": "is gone", "modified": "changed back"}
_MOST_FILES = 40


class OperationAnswer(Protocol):
    """An answer in either form: as plain dicts and lists, or as the structs of the session."""

    def __getitem__(self, key: str, /) -> Any: ...


class UndoWords(msgspec.Struct, frozen=True):
    """What was typed behind `/undo`."""

    yes: bool = False
    force: bool = False
    to: str | None = None
    paths: tuple[str, ...] = ()

    def params(self) -> dict[str, Any]:
        """The parameters of the operation."""
        paths = {"paths": list(self.paths)} if self.paths else {}
        return {"id": self.to, "force": self.force, "dry_run": not self.yes, **paths}


def read_undo(rest: str) -> UndoWords:
    """Parse it. InvalidParamsError where `to` names no checkpoint."""
    words = rest.split()
    switches: dict[str, Any] = {}
    while words and words[0] in ("yes", "force", "to"):
        word = words.pop(0)
        if word == "to" and not words:
            raise InvalidParamsError(f"to which checkpoint? {USAGE}; `tertulia checkpoints` lists them")
        switches[word] = words.pop(0) if word == "to" else True
    return UndoWords(**switches, paths=tuple(words))


def read_diff(rest: str) -> dict[str, Any]:
    """The parameters of the operation for what was typed behind `/diff`. InvalidParamsError for more than one id."""
    words: Sequence[str] = rest.split()
    named = [word for word in words if word != "now"]
    if len(named) > 1:
        raise InvalidParamsError("/diff [now] [ID]")
    return {"id": named[0] if named else None, "to_now": "now" in words}


def undo_lines(answer: OperationAnswer, words: UndoWords, rest: str) -> list[str]:
    """The answer to what was typed, with what can be typed next."""
    lines = restore_lines(answer)
    if answer["files"] and not words.yes:
        lines.append(f"/undo yes{f' {rest}' if rest else ''} does it")
    if answer["undo_id"]:
        lines.append(f"/undo yes to {answer['undo_id']} takes this back")
    return lines


def restore_lines(answer: OperationAnswer) -> list[str]:
    """An answer of `checkpoint/restore`, as lines for people."""
    files, left, done = answer["files"], answer["left"], answer["restored"]
    verbs = _DONE if done else _VERBS
    lines = [f"{visible(file['path'])} {verbs[file['status']]}" for file in files[:_MOST_FILES]]
    if len(files) > _MOST_FILES:
        lines.append(f"and {len(files) - _MOST_FILES:,} more")
    if not files:
        lines.append("no file has to be changed")
    lines += [f"left: {visible(entry['path'])}: {entry['reason']}" for entry in left]
    if left:
        lines.append("force restores what others have changed, too")
    return [*lines, *not_captured_lines(answer)]


def diff_lines(answer: OperationAnswer) -> list[str]:
    """An answer of `checkpoint/diff`, as lines for people."""
    cut = ["… the rest is left out"] if answer["truncated"] else []
    text = str(answer["diff"]).splitlines() or ["nothing was changed"]
    return [*text, *cut, *not_captured_lines(answer)]


def not_captured_lines(answer: OperationAnswer) -> list[str]:
    """What the checkpoints do not have."""
    named = [f"not captured: {visible(entry['path'])} ({entry['reason']})" for entry in answer["left_out"][:10]]
    return [*named, str(answer["not_captured"])]
