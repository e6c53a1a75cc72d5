"""The user's editor for tools: the text of a file as the editor has it, saved or not.

An editor reads and writes with the user's own rights, whatever is at a path by then. So it is asked only about
files that the call's own sandbox has just read, and believed only where the path leads to the same file afterwards,
with nothing on the way changed meanwhile. What it writes can be checked in that way too, but not be taken back: that
counts as leaving the sandbox, which a person has to allow.
"""

from __future__ import annotations

import asyncio
import base64
import os.path
from collections.abc import Sequence

import msgspec

from tertulia.errors import InvalidParamsError, SandboxError
from tertulia.policy.approvals.approval_request import ApprovalParts, RequestedAction, with_label
from tertulia.protocol.tool_events import ApprovalFile, Decider
from tertulia.tools.command_environment import CommandEnvironment, check_unprotected
from tertulia.tools.patch.read_files import difference
from tertulia.tools.tool import Buffers, CallContext

MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Of a file that an editor is asked about."""
MAX_ASKED = 32
"""Files of one call that an editor is asked about."""
_TRIES = 2
_MARK = "\ufeff"


class EditorFile(msgspec.Struct, frozen=True):
    """A file as the sandbox reads it and as the editor shows it."""

    saved: bytes
    shown: str | None
    """None: the editor gave no text that can be trusted."""

    def unsaved(self) -> bytes | None:
        """Unsaved text of the editor, with the line ends and marks that the file has; None where there is none."""
        try:
            saved = self.saved.decode()
        except UnicodeDecodeError:
            # Its encoding in the editor is not known.
            return None
        if self.shown is None or _plain(self.shown) == _plain(saved):
            return None
        text = self.shown.removeprefix(_MARK)
        if saved.endswith("\n") and not text.endswith("\n"):
            text += "\n"
        if "\r\n" in saved and "\r" not in text:
            text = text.replace("\n", "\r\n")
        return ((_MARK if saved.startswith(_MARK) else "") + text).encode()

    def as_shown(self, text: str) -> str:
        """Another text for the same file, spelled as the editor spells this one."""
        shown, saved = self.shown or "", self.saved.decode("utf-8", "replace")
        text = text if shown.startswith(_MARK) else text.removeprefix(_MARK)
        text = text if "\r" in shown else text.replace("\r\n", "\n")
        return text.removesuffix("\n") if saved.endswith("\n") and not shown.endswith("\n") else text

    def has(self, text: str) -> bool:
        """Whether the editor or the disk has this text now."""
        texts = [self.saved.decode("utf-8", "replace"), *([] if self.shown is None else [self.shown])]
        return _plain(text) in map(_plain, texts)


class _Look(msgspec.Struct, frozen=True):
    saved: bytes | None
    trail: list[int] | None


class EditorView:
    """Files of the workspace as the user sees them in the editor, with no more rights than the call has."""

    def __init__(self, place: CommandEnvironment, buffers: Buffers) -> None:
        self._place = place
        self._buffers = buffers

    def locate(self, path: str, call: CallContext) -> tuple[str, str]:
        """The outermost directory that may be looked into, and where below it the file is; InvalidParams if nowhere."""
        return self._place.locate(path, call)

    async def look(self, paths: Sequence[str], call: CallContext) -> dict[str, EditorFile]:
        """Those that are there. InvalidParams for one that may not be read, or is no plain file."""
        places: dict[str, dict[str, str]] = {}
        for path in paths:
            root, relative = self.locate(path, call)
            places.setdefault(root, {})[path] = relative
        seen: dict[str, EditorFile] = {}
        for root, below in places.items():
            files = await self._below(root, list(below.values()), call, write=False)
            seen |= {path: files[relative] for path, relative in below.items() if relative in files}
        return seen

    async def approve(self, patch: str, path: str, files: tuple[ApprovalFile, ...], call: CallContext) -> Decider:
        """Return when the editor may change this file; else ApprovalDenied, or InvalidParams where it never may."""
        if call.rights.sandbox == "read_only":
            raise InvalidParamsError(f"{path} cannot be changed: the sandbox is read-only")
        if not self._buffers.can_write:
            raise InvalidParamsError(
                f"{path} has changes in the user's editor that are not saved: ask for it to be saved"
            )
        place, outside = self._place, call.rights.sandbox != "danger_full_access"
        directory, confinement = place.directory(None, call), place.confinement(call.rights, call.worktree)
        check_unprotected(directory, confinement)
        subject = place.subject(("editor", path, patch), directory, confinement, outside=outside)
        request = RequestedAction(
            kind="escalation" if outside else "patch",
            conversation_id=call.conversation_id,
            chain=call.chain.callers,
            call_id=call.call_id,
            title=f"change {path} in the editor" + ", outside the sandbox" * outside,
            detail=with_label(
                "It has changes there that are not saved yet; the editor will save them with this patch", patch
            ),
            subject=subject,
            parts=ApprovalParts(cwd=directory, sandbox=subject.sandbox, files=files),
        )
        with call.unhurried():
            granted = await place.approvals.ask(request, call.rights.approval_policy, call.publish)
        return granted.decider

    async def write(self, path: str, old: EditorFile, new: str, call: CallContext) -> bool:
        """Have the editor write a file that is still as it was seen, and that the sandbox itself could write.

        Returns whether exactly this text is there now: editors format what they save.
        """
        root, relative = self.locate(path, call)
        now = await self._below(root, [relative], call, write=True)
        if now.get(relative) != old:
            new = difference(_content(old), _content(now.get(relative)))
            raise InvalidParamsError(f"{path}: it has changed since it was read; nothing was changed. {new}")
        await self._buffers.write(os.path.join(root, relative), old.as_shown(new))
        after = (await self._below(root, [relative], call, write=False)).get(relative)
        if after is None or after == old:
            raise SandboxError(f"the editor did not write {path}: look at it before you go on")
        return after.has(new)

    async def _below(self, root: str, paths: list[str], call: CallContext, *, write: bool) -> dict[str, EditorFile]:
        free = call.rights.sandbox == "danger_full_access"
        before = await self._read(root, paths, call, write=write)
        worth_it = [path for path in paths if _worth_asking(before[path])][:MAX_ASKED]
        shown: dict[str, str | None] = {}
        for _ in range(_TRIES):
            unread = [path for path in worth_it if path not in shown and _worth_asking(before[path])]
            if not unread:
                break
            texts = await asyncio.gather(*(self._buffers.text(os.path.join(root, path)) for path in unread))
            after = await self._read(root, paths, call, write=write)
            # With full access a path that leads elsewhere gains nothing.
            shown |= {
                path: text
                for path, text in zip(unread, texts, strict=True)
                if text is None or free or before[path].trail == after[path].trail
            }
            before = after
        seen = {path: look.saved for path, look in before.items() if look.saved is not None}
        return {path: EditorFile(saved, shown.get(path)) for path, saved in seen.items()}

    async def _read(self, root: str, paths: list[str], call: CallContext, *, write: bool) -> dict[str, _Look]:
        there = msgspec.structs.replace(call, cwd=root)
        request = {"verb": "look", "paths": paths, "write": write}
        answer = await self._place.on_disk(request, there, "files could not be read")
        if not answer["ok"]:
            verb = "changed" if write else "read"
            raise InvalidParamsError(f"{answer['path']} cannot be {verb}: {answer['reason']}")
        files, trails = answer["files"], answer["trails"]
        return {path: _Look(_bytes(files[path]), trails[path]) for path in paths}


def _worth_asking(look: _Look) -> bool:
    return look.saved is not None and look.trail is not None and len(look.saved) <= MAX_TEXT_BYTES


def _content(file: EditorFile | None) -> bytes | None:
    """What the model works on."""
    if file is None:
        return None
    unsaved = file.unsaved()
    return file.saved if unsaved is None else unsaved


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded)


def _plain(text: str) -> str:
    """Without what editors keep apart from the text: line ends, the mark before it, the end of its last line."""
    return text.removeprefix(_MARK).replace("\r\n", "\n").removesuffix("\n")
