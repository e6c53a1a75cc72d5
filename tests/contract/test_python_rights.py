"""Rights from Python: every spelling of a policy, narrowing and how it is told, set_context."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, say
from tests.contract.python_session import becomes, past, sent_texts, soon, start_session
from tests.tables import each_row

APPROVALS = ["untrusted", "on-request", "on-failure", "never"]
SANDBOXES = ["read-only", "workspace-write", "danger-full-access"]


def session_with(model: ScriptedModel, **settings: Any) -> Any:
    return tertulia.Session.start(tertulia.Settings(model=model, **settings))


# ---- spellings


@each_row(
    ("value", "wire"),
    [
        (tertulia.Full(), "full"),
        (tertulia.HeadersOnly(), "headers_only"),
        (tertulia.NoStorage(), "none"),
        (tertulia.Ttl(60), {"ttl": 60}),
        ("full", "full"),
        ("Full", "full"),
        ("headers_only", "headers_only"),
        ("headers-only", "headers_only"),
        ("HeadersOnly", "headers_only"),
        ("none", "none"),
        ({"ttl": 60}, {"ttl": 60}),
        ("ttl:5", {"ttl": 5}),
    ],
)
async def test_every_spelling_of_a_storage_policy_is_taken_everywhere(value: Any, wire: Any) -> None:
    async with start_session(storage_policy=value) as session:
        context = await session.root.context()
        assert context.storage_policy == wire
        assert context.policy["storage"] == wire
    async with start_session() as session:
        conversation = await session.open(storage_policy=value)
        assert (await conversation.context()).storage_policy == wire
        changed = await session.root.set_context(storage_policy=value)
        assert changed.context.storage_policy == wire


@each_row(
    "bad",
    ["headers", "ttl", {"ttl": 0}, {"ttl": -1}, {"ttl": "long"}, {"ttl": True}, {"ttl": 1, "x": 2}, {}, 3, "ttl:x"],
)
async def test_a_storage_policy_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(errors.InvalidParamsError, match="storage_policy"):
        tertulia.Settings(storage_policy=bad)
    async with start_session() as session:
        with pytest.raises(errors.InvalidParamsError):
            await session.open(storage_policy=bad)
        with pytest.raises(errors.InvalidParamsError):
            await session.root.set_context(storage_policy=bad)
        assert (await session.root.context()).storage_policy == "full"
        assert len(session.conversations()) == 1


def test_storage_policies_are_values() -> None:
    assert tertulia.Full() == tertulia.Full()
    assert tertulia.Ttl(60) == tertulia.Ttl(60) != tertulia.Ttl(61)
    assert len({tertulia.Full(), tertulia.HeadersOnly(), tertulia.NoStorage(), tertulia.Ttl(1)}) == 4
    for bad in (-1, 0, float("nan"), float("inf")):
        with pytest.raises((errors.InvalidParamsError, ValueError)):
            tertulia.Ttl(bad)


@each_row("name", APPROVALS)
@pytest.mark.parametrize("spell", [str, lambda name: name.replace("-", "_")])
async def test_approval_policies_are_taken_with_hyphens_and_underscores_and_told_with_hyphens(
    name: str, spell: Any
) -> None:
    async with start_session(approval_policy=spell(name)) as session:
        assert (await session.root.context()).policy["approval"] == name
    async with start_session(approval_policy="on-failure") as session:
        conversation = await session.open(approval_policy=spell(name))
        narrower = (await conversation.context()).policy["approval"]
        assert narrower == name


@pytest.mark.parametrize("name", SANDBOXES)
@pytest.mark.parametrize("spell", [str, lambda name: name.replace("-", "_")])
async def test_sandboxes_are_taken_with_hyphens_and_underscores_and_told_with_hyphens(name: str, spell: Any) -> None:
    async with start_session(sandbox=spell(name)) as session:
        assert (await session.root.context()).policy["sandbox"] == name
    async with start_session(sandbox="danger-full-access") as session:
        conversation = await session.open(sandbox=spell(name))
        assert (await conversation.context()).policy["sandbox"] == name


# ---- narrowing


def pairs(narrowed: list[Any]) -> list[tuple[Any, ...]]:
    entries = [entry if isinstance(entry, dict) else msgspec.structs.asdict(entry) for entry in narrowed]
    return [(entry["field"], entry["asked"], entry["given"], entry["because"]) for entry in entries]


@each_row(
    ("settings", "requested", "expected"),
    [
        ({}, {"sandbox": "danger-full-access"}, "workspace-write"),
        ({"sandbox": "read-only"}, {"sandbox": "workspace_write"}, "read-only"),
        ({"storage_policy": "headers_only"}, {"storage_policy": "full"}, "headers_only"),
        ({"storage_policy": "none"}, {"storage_policy": {"ttl": 5}}, "none"),
        ({"storage_policy": {"ttl": 60}}, {"storage_policy": {"ttl": 120}}, {"ttl": 60}),
        ({"approval_policy": "on-request"}, {"approval_policy": "on-failure"}, "on-request"),
        ({"approval_policy": "never"}, {"approval_policy": "on-request"}, "never"),
    ],
)
async def test_asking_for_more_than_allowed_gives_the_allowed_and_says_so(
    settings: dict[str, Any], requested: dict[str, Any], expected: Any
) -> None:
    """S000-16, S000-17, S000-47: no error; `narrowed` and a background_event say what, and why."""
    ((field, value),) = requested.items()
    wire = value.replace("_", "-") if field != "storage_policy" else value
    async with start_session(**settings) as session:
        conversation = await session.open(**requested)
        context = await conversation.context()
        assert pairs(context.narrowed) == [(field, wire, expected, "session")]
        events = await past(session, type="background_event", conversation_id=conversation.id)
        assert [pairs(event.data.narrowed) for event in events] == [[(field, wire, expected, "session")]]
        assert events[0].data.message


async def test_never_and_untrusted_make_a_policy_without_a_name() -> None:
    """never ∧ untrusted = (trusted, no, no)."""
    async with start_session(approval_policy="never") as session:
        conversation = await session.open(approval_policy="untrusted")
        assert (await conversation.context()).policy["approval"] == {
            "auto_run": "trusted", "may_ask": False, "retry_outside_on_failure": False,
        }  # fmt: skip


async def test_a_narrower_request_is_simply_granted() -> None:
    async with start_session() as session:
        conversation = await session.open(sandbox="read-only", approval_policy="untrusted", storage_policy="none")
        context = await conversation.context()
        assert context.policy == {
            "approval": "untrusted", "sandbox": "read-only", "network": False, "storage": "none",
        }  # fmt: skip
        assert context.narrowed == []
        assert not await past(session, type="background_event")


async def test_a_child_narrows_from_its_parent_as_it_was_when_it_was_made() -> None:
    """S000-19: because = ancestor:ID; inheritance is a snapshot."""
    async with start_session() as session:
        parent = await session.open(sandbox="read-only", storage_policy="none")
        child = await session.open(parent_id=parent.id, sandbox="workspace-write", storage_policy="full")
        narrowed = pairs((await child.context()).narrowed)
        assert sorted(narrowed, key=lambda entry: entry[0]) == [
            ("sandbox", "workspace-write", "read-only", f"ancestor:{parent.id}"),
            ("storage_policy", "full", "none", f"ancestor:{parent.id}"),
        ]
        await parent.close()
        changed = await child.set_context(sandbox="workspace-write")
        assert changed.context.policy["sandbox"] == "read-only", "the ceiling outlives the parent"


async def test_the_root_is_a_parent_like_any_other() -> None:
    """S000-19: a parent fixes the ceiling of its children when they are made."""
    async with start_session() as session:
        await session.root.set_context(sandbox="read-only")
        child = await session.open(parent_id=session.root.id, sandbox="workspace-write")
        assert pairs((await child.context()).narrowed) == [
            ("sandbox", "workspace-write", "read-only", f"ancestor:{session.root.id}")
        ]


async def test_a_fork_has_the_rights_of_what_it_was_made_from() -> None:
    async with start_session() as session:
        parent = await session.open(sandbox="read-only")
        child = await session.open(parent_id=parent.id)
        fork = await child.fork()
        assert (await fork.context()).policy["sandbox"] == "read-only"
        wider = await fork.set_context(sandbox="workspace-write")
        assert wider.context.policy["sandbox"] == "read-only", "the ceiling comes along"


async def test_switches_are_met_like_everything_else() -> None:
    """S000-16: a tool that the parent has not, the child has not."""
    async with start_session() as session:
        parent = await session.open(include_plan_tool=False)
        child = await session.open(parent_id=parent.id, include_plan_tool=True)
        assert "update_plan" not in [tool.name for tool in child.tools()]
        narrowed = pairs((await child.context()).narrowed)
        assert narrowed == [("include_plan_tool", True, False, f"ancestor:{parent.id}")]


async def test_limits_are_met_with_those_of_the_session() -> None:
    async with start_session(limits={"max_output_bytes": 1000}) as session:
        wide = await session.open(limits={"max_output_bytes": 5000, "max_history_items": 50})
        context = await wide.context()
        assert context.limits["max_output_bytes"] == 1000
        assert context.limits["max_history_items"] == 50
        assert len(context.narrowed) == 1
        assert "limits" in context.narrowed[0].field
        assert context.narrowed[0].because == "session"


@each_row("bad", [{"max_sheep": 1}, {"max_output_bytes": -1}, {"max_output_bytes": "many"}, 3])
async def test_a_limit_that_is_none_is_refused(bad: Any) -> None:
    async with start_session() as session:
        with pytest.raises(errors.InvalidParamsError):
            await session.open(limits=bad)
        assert len(session.conversations()) == 1


# ---- set_context


async def test_absent_keeps_and_none_resets() -> None:
    """S000-34, X-67."""
    async with start_session() as session:
        conversation = await session.open(base_instructions="BASE", user_instructions="USER", sandbox="read-only")
        await conversation.set_context(base_instructions="NEW")
        context = await conversation.context()
        assert (context.base_instructions, context.user_instructions) == ("NEW", "USER")
        assert context.policy["sandbox"] == "read-only"
        answer = await conversation.set_context(base_instructions=None)
        assert answer.conversation_id == conversation.id
        assert answer.context.base_instructions is None
        assert answer.context.user_instructions == "USER"
        assert answer.narrowed == []
        assert answer.warnings == []


async def test_new_user_instructions_are_appended_and_nothing_is_rewritten() -> None:
    """S000-34, X-67."""
    model = ScriptedModel(["One.", "Two."])
    async with session_with(model) as session:
        conversation = await session.open(user_instructions="Speak Spanish.")
        await conversation.message("First")
        before = sent_texts(model)
        await conversation.set_context(user_instructions="Speak French.")
        await conversation.message("Second")
        after = sent_texts(model)
        assert [entry.text for entry in await conversation.history()] == ["First", "One.", "Second", "Two."]
    assert after[: len(before)] == before
    new = next(text for text in after if "Speak French." in text)
    assert new.startswith("<")
    assert after.index("One.") < after.index(new) < after.index("Second")


async def test_a_change_during_a_task_holds_from_its_next_model_request() -> None:
    gate = asyncio.Event()
    plan = {"plan": [{"step": "Look", "status": "pending"}]}
    first = {"tool_calls": [{"name": "update_plan", "arguments": plan}]}
    model = ScriptedModel([say("Wait.", gate=gate), first, "Done."])
    async with session_with(model) as session:
        running = asyncio.create_task(session.root.message("Go"))
        await becomes(lambda: len(model.requests) == 1)
        await session.root.set_context(base_instructions="CHANGED")
        await session.root.steer("Go on")
        gate.set()
        await soon(running)
    assert [request.instructions == "CHANGED" for request in model.requests] == [False, True, True]


async def test_a_refused_change_changes_nothing() -> None:
    async with start_session() as session:
        conversation = await session.open(base_instructions="BASE")
        before = await conversation.context()
        for bad in ({"sandbox": "open"}, {"mcp_tool_allowlist": ["x__y"]}, {"limits": {"max_sheep": 1}}):
            with pytest.raises(errors.InvalidParamsError):
                await conversation.set_context(base_instructions="NEW", **bad)
        with pytest.raises((errors.InvalidParamsError, TypeError), match="colour"):
            await conversation.set_context(base_instructions="NEW", colour="blue")
        assert await conversation.context() == before
        assert not await past(session, type="conversation_context_changed")


async def test_what_a_conversation_is_cannot_be_changed_later() -> None:
    agent = {
        "name": "ana", "archetype": "repo", "backend_type": "pi", "workspace_policy": "persistent",
        "launch_mode": "managed",
    }  # fmt: skip
    async with start_session() as session:
        made = await session.open(agent=agent)
        for conversation in (made, session.root):
            before = await conversation.context()
            with pytest.raises(errors.InvalidParamsError, match="agent"):
                await conversation.set_context(agent=agent)
            assert await conversation.context() == before


async def test_a_conversation_may_ask_back_up_to_the_session_but_not_beyond() -> None:
    async with start_session() as session:
        await session.root.set_context(sandbox="read-only")
        up = await session.root.set_context(sandbox="workspace-write")
        assert up.context.policy["sandbox"] == "workspace-write"
        beyond = await session.root.set_context(sandbox="danger-full-access")
        assert beyond.context.policy["sandbox"] == "workspace-write"
        assert pairs(beyond.narrowed) == [("sandbox", "danger-full-access", "workspace-write", "session")]


async def test_none_returns_a_right_to_the_default_of_the_session() -> None:
    async with start_session(approval_policy="never") as session:
        await session.root.set_context(sandbox="read-only", storage_policy="none", approval_policy="untrusted")
        answer = await session.root.set_context(sandbox=None, storage_policy=None, approval_policy=None)
        assert answer.context.policy == {
            "approval": "never", "sandbox": "workspace-write", "network": False, "storage": "full",
        }  # fmt: skip


async def test_the_environment_that_the_model_is_told_follows_its_rights() -> None:
    model = ScriptedModel(["Hi."])
    async with session_with(model, sandbox="danger-full-access") as session:
        conversation = await session.open(sandbox="read-only", approval_policy="never")
        await conversation.message("Hello")
    assert "read-only" in sent_texts(model)[0]
    assert "never" in sent_texts(model)[0]


@each_row(
    ("field", "value"),
    [
        ("model", "nobody/nothing"),
        ("approval_policy", "sometimes"),
        ("sandbox", "sandcastle"),
        ("storage_policy", "attic"),
        ("limits", {"max_sheep": 1}),
        ("tools", [3]),
    ],
)
async def test_settings_that_cannot_be_are_refused_with_a_code(field: str, value: Any) -> None:
    with pytest.raises(errors.InvalidParamsError, match=field.rstrip("s")) as caught:
        async with tertulia.Session.start(tertulia.Settings(**{"model": ScriptedModel([]), field: value})):
            pass
    assert caught.value.code == "invalid_params"


async def test_what_was_narrowed_is_told_in_plain_words() -> None:
    """A1, UI.md 7.13: a policy without a name was shown to people as a Python dict."""
    async with session_with(ScriptedModel(["hello"]), approval_policy="untrusted") as session:
        await session.open(approval_policy="never", sandbox="danger-full-access")
        messages = [event.data.message for event in await past(session) if event.type == "background_event"]
    assert messages == [
        (
            "approval_policy: asked for never; given only known-safe reads run, the rest is refused unasked, "
            "because of the session"
        ),
        "sandbox: asked for danger-full-access; given workspace-write, because of the session",
    ]
