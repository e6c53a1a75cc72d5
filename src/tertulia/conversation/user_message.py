"""Makes one user message of what a client sent, checked as a whole before anything happens.

Also the messages that a history starts with: the user's instructions, then the environment, then what the files
of the project say. Each starts with a tag, so that models, people and listings can tell them from what a user said.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from tertulia.context.surroundings import Surroundings
from tertulia.errors import InvalidParamsError
from tertulia.lazy_pattern import lazy_pattern
from tertulia.policy.approval_policy import approval_to_wire
from tertulia.policy.host_rules import NetworkRight, network_text
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import sandbox_to_wire
from tertulia.protocol.ids import ConversationId, new_item_id
from tertulia.protocol.inputs import ImageInput, InputItem, LocalImageInput, TextInput, check_text
from tertulia.protocol.items import ImagePart, Item, Part, TextPart, UserMessage
from tertulia.protocol.message_events import MessageQueued, MessageWay, UserMessageEvent, describe_attachments
from tertulia.protocol.records import TOO_MANY, has_too_many_escapes

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_MESSAGE_CHARS = 64 * 1024 * 1024
"""Of all parts together: a short request can name many large pictures."""
PREVIEW_CHARACTERS = 120
"""Of a message, in the events that do not have the whole."""

_SIGNATURES = (
    (lazy_pattern(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (lazy_pattern(rb"\xff\xd8\xff"), "image/jpeg"),
    (lazy_pattern(rb"GIF8[79]a"), "image/gif"),
    (lazy_pattern(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)


def to_user_message(
    text: str | None, items: Sequence[InputItem] | None, *, cwd: str, sender: str | None = None
) -> UserMessage:
    """Text first, then items; empty texts are left out, and InvalidParams when nothing remains."""
    parts: list[Part] = []
    room = MAX_MESSAGE_CHARS
    if text:
        parts.append(TextPart(check_text(text, "text", with_escapes=False)))
        room -= len(text)
    for index, item in enumerate(items or ()):
        content = _content(item, f"items[{index}]", cwd)
        room -= len(content)
        if room < 0:
            raise InvalidParamsError(
                f"items[{index}] is one too many: a message has {MAX_MESSAGE_CHARS:,} characters at most"
            )
        if content:
            parts.append(TextPart(content) if isinstance(item, TextInput) else ImagePart(content))
    if not parts:
        raise InvalidParamsError("a message needs text or items, and both were empty")
    _check_escapes(parts)
    if sender is not None:
        check_text(sender, "sender")
    return UserMessage(new_item_id(), tuple(parts), sender=sender)


def _check_escapes(parts: Sequence[Part]) -> None:
    if has_too_many_escapes(*(part.text for part in parts if isinstance(part, TextPart))):
        raise InvalidParamsError(f"the message has {TOO_MANY}")


def _content(item: InputItem, where: str, cwd: str) -> str:
    """The text, or the address of the picture."""
    match item:
        case TextInput(text):
            return check_text(text, f"{where}.text", with_escapes=False)
        case ImageInput(image_url):
            if not image_url.startswith(("data:image/", "https://")):
                raise InvalidParamsError(f"{where}.image_url must be a data:image/ or https: address")
            return check_text(image_url, f"{where}.image_url")
        case LocalImageInput(path):
            check_text(path, f"{where}.path")
            return _read_image(os.path.join(cwd, path), f"{where}.path: {path!r:.200}")


def _read_image(path: str, named: str) -> str:
    """The picture as a data: address."""
    from tertulia.policy.plain_file import read_named_file

    data = read_named_file(path, MAX_IMAGE_BYTES, named)
    for signature, mime in _SIGNATURES:
        if signature.match(data):
            return f"data:{mime};base64,{base64.b64encode(data).decode()}"
    raise InvalidParamsError(f"{named} is not a PNG, JPEG, GIF or WebP picture")


def announce(message: UserMessage, how: MessageWay, caller_id: ConversationId | None = None) -> UserMessageEvent:
    """The event of a message; `caller_id`: the conversation that wrote it."""
    attachments = describe_attachments(message.parts) if message.has_pictures else ()
    return UserMessageEvent(message.id, message.text, how, attachments, message.sender, caller_id)


def announce_queued(message: UserMessage) -> MessageQueued:
    """The event of a message that has to wait."""
    pictures = len(describe_attachments(message.parts))
    return MessageQueued(message.id, message.text[:PREVIEW_CHARACTERS], pictures, message.sender)


INSTRUCTIONS_WITHDRAWN = "The instructions above no longer hold."
"""The message for instructions that the user withdraws: a history is added to, never rewritten."""

NO_ANSWERS = (
    "no person is at this run; what needs an approval is refused, unless an approver attends from elsewhere or exactly"
    " that was allowed before"
)
"""True for all of the run, also while a page or another terminal attends to it."""

_BETWEEN = "\n\n---\n\n"


def user_instructions_message(text: str) -> UserMessage:
    """The user's standing instructions in their standard wrapper."""
    wrapped = f"<user_instructions>\n\n{text}\n\n</user_instructions>"
    return UserMessage(new_item_id(), (TextPart(wrapped),), injected=True)


def additions_message(texts: Sequence[str], tag: str = "context_additions") -> UserMessage:
    """What context providers have to say to an agent: one message of its own, never glued to instructions."""
    wrapped = f"<{tag}>\n\n{_BETWEEN.join(texts)}\n\n</{tag}>"
    return UserMessage(new_item_id(), (TextPart(wrapped),), injected=True)


PROJECT_CHANGED = "The files of the project were changed: this takes the place of the project instructions above."
PROJECT_WITHDRAWN = "The project instructions above no longer hold: there are none any more."

_PROJECT = lazy_pattern(r"<project_instructions>\n\n(.*)\n\n</project_instructions>", re.DOTALL)


def project_message(text: str) -> UserMessage:
    """What the files of the project say about working in it."""
    wrapped = f"<project_instructions>\n\n{text}\n\n</project_instructions>"
    return UserMessage(new_item_id(), (TextPart(wrapped),), injected=True)


def project_update(before: str, now: str) -> UserMessage | None:
    """The message for a conversation that was told `before`, when the files say `now`; None where nothing is new."""
    if before == now:
        return None
    if not before:
        return project_message(now)
    return project_message(f"{PROJECT_CHANGED}\n\n{now}" if now else PROJECT_WITHDRAWN)


def told_project_text(items: Iterable[Item]) -> str:
    """What the last such message of a history says; empty where there is none."""
    texts = (item.text for item in items if isinstance(item, UserMessage) and item.injected)
    last = [found[1] for text in texts if (found := _PROJECT.fullmatch(text))][-1:]
    text = last[0].removeprefix(f"{PROJECT_CHANGED}\n\n") if last else ""
    return "" if text == PROJECT_WITHDRAWN else text


def environment_message(
    cwd: str, rights: Rights, *, unattended: bool = False, around: Surroundings | None = None
) -> UserMessage:
    """Where the conversation works and what it may do there; `unattended`: that no person is there by itself."""
    approval = approval_to_wire(rights.approval_policy)
    named = approval if isinstance(approval, str) else msgspec.json.encode(approval).decode()
    no_answers = unattended and rights.approval_policy.may_ask
    mode, git = sandbox_to_wire(rights.sandbox), rights.allow_git and rights.sandbox == "workspace_write"
    parts = _environment((cwd, named, mode), _network_access(rights.network), no_answers, git, around)
    return UserMessage(new_item_id(), parts, injected=True)


def _network_access(network: NetworkRight) -> str:
    if isinstance(network, bool):
        return "enabled" if network else "restricted"
    return f"{network_text(network)} (through http_proxy and https_proxy, which are set)"


_GIT = (
    "`git add`, `git commit -m`, `git branch NAME` and `git tag NAME`, each as one plain command, write the repository"
)


@lru_cache(maxsize=256)
def _environment(
    named: tuple[str, str, str], network: str, no_answers: bool, git: bool, around: Surroundings | None
) -> tuple[Part, ...]:
    cwd, approval, sandbox = named
    # Cached so that ten thousand conversations in one directory share one text.
    lines = (
        "<environment_context>",
        f"  <cwd>{cwd}</cwd>",
        f"  <approval_policy>{approval}</approval_policy>",
        *([f"  <approvals>{NO_ANSWERS}</approvals>"] if no_answers else []),
        f"  <sandbox_mode>{sandbox}</sandbox_mode>",
        f"  <network_access>{network}</network_access>",
        *([f"  <git_access>{_GIT}</git_access>"] if git else []),
        *([] if around is None else around.lines()),
        "</environment_context>",
    )
    return (TextPart("\n".join(lines)),)


def not_stored_message() -> UserMessage:
    """The message of a resumed conversation whose earlier part was not stored."""
    text = "<not_stored>\nThe earlier part of this conversation was not stored and is not known.\n</not_stored>"
    return UserMessage(new_item_id(), (TextPart(text),), injected=True)


def seeds(
    user_instructions: str | None,
    cwd: str,
    rights: Rights,
    additions: Sequence[str] = (),
    *,
    project: str = "",
    unattended: bool = False,
    around: Surroundings | None = None,
) -> tuple[UserMessage, ...]:
    """All of them, in the order in which the model reads them."""
    instructions = (user_instructions_message(user_instructions),) if user_instructions else ()
    added = (additions_message(additions),) if additions else ()
    files = (project_message(project),) if project else ()
    return (*instructions, *added, environment_message(cwd, rights, unattended=unattended, around=around), *files)
