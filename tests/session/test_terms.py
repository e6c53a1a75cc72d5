"""What a conversation inherits, and what it can have at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.conversation.resolve_terms import resolve_terms
from tertulia.errors import InvalidParamsError, LimitError
from tertulia.protocol.inputs import NewConversation
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, call, say
from tests.session.staging import stage


def started(**settings: object) -> Session:
    return Session.start(tertulia.Settings(model=ScriptedModel(["ok"], repeat=True), **settings))  # type: ignore[arg-type]


async def test_below_another_conversation_rights_are_inherited_and_words_are_not() -> None:
    """S000-19, X-05: the parent's rights are the ceiling; what the parent was told is not for the child."""
    async with started() as session:
        parent = await session.open(sandbox="read-only", base_instructions="secret", user_instructions="private")
        child = await session.open(parent_id=parent.id, sandbox="workspace-write")
        context = await child.context()
        assert (context.base_instructions, context.user_instructions) == (None, None)
        assert context.policy["sandbox"] == "read-only"
        (cut,) = context.narrowed
        assert (cut.field, cut.asked, cut.given) == ("sandbox", "workspace-write", "read-only")
        assert cut.because == f"ancestor:{parent.id}"


async def test_null_goes_back_to_the_session_under_the_ceiling_of_the_conversation() -> None:
    """X-67, DESIGN fine print: null returns to the session's default met with the conversation's ceiling."""
    async with started() as session:
        parent = await session.open(sandbox="read-only", storage_policy="headers_only")
        child = await session.open(parent_id=parent.id, storage_policy="none")
        answer = await child.set_context(storage_policy=None, sandbox=None)
        assert answer.context.storage_policy == "headers_only"
        assert answer.context.policy["sandbox"] == "read-only"
        assert answer.narrowed == []


async def test_an_unrelated_change_does_not_forget_what_was_cut() -> None:
    """S000-36"""
    async with started(sandbox="read-only") as session:
        conversation = await session.open(sandbox="danger-full-access")
        await conversation.set_context(title="other")
        assert [cut.field for cut in (await conversation.context()).narrowed] == ["sandbox"]
        assert [cut.field for cut in (await (await conversation.fork()).context()).narrowed] == ["sandbox"]
        await conversation.set_context(sandbox="read-only")
        assert (await conversation.context()).narrowed == []


async def test_the_terms_of_a_child_are_resolved_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A call of conv_create is checked, admitted and carried out; each sibling has its own instructions and wire."""
    resolved: list[NewConversation] = []

    def count(spec: NewConversation, *others: Any) -> Any:
        resolved.append(spec)
        return resolve_terms(spec, *others)

    monkeypatch.setattr("tertulia.session.terms.resolve_terms", count)
    (tmp_path / "brief.md").write_text("from a file")
    calls = [
        call("conv_create", {"user_instruction": "go", **fields}, call_id)
        for call_id, fields in {
            "c1": {},
            "c2": {"base_instruction_text": "own"},
            "c3": {"base_instruction_file": "brief.md"},
            "c4": {"title": "other"},
        }.items()
    ]
    async with stage(say("", *calls), "1", "2", "3", "4", "done", cwd=str(tmp_path)) as on:
        reply = await on.root.message("go")
        children = on.session.conversations()[1:]
        assert (reply.text, [(await child.context()).base_instructions for child in children]) == (
            "done",
            [None, "own", "from a file", None],
        )
        assert (len(children), len(resolved)) == (4, 4)


async def test_a_rehearsal_raises_what_the_opening_would_and_keeps_no_wire() -> None:
    """S004-32: refused before any side effect; the wire that had to be made to know is let go of."""
    providers = {"acme": {"base_url": "http://127.0.0.1:9/v1", "wire": "chat"}}
    async with started(model_providers=providers) as session:
        conversations, root = session.parts.conversations, session.parts.conversations.root
        wires = len(session.parts.wires)
        conversations.check_child(NewConversation(model="acme/one"), root)
        conversations.check_child(NewConversation(), root)
        assert (len(session.parts.wires), len(conversations)) == (wires, 1)
        with pytest.raises(InvalidParamsError):
            conversations.check_child(NewConversation(model="nobody/knows"), root)
        with pytest.raises(LimitError, match="max_conversations"):
            conversations.check_child(NewConversation(), root, promised=10_000)
