"""What a conversation may see of the others: all of them, or its own subtree and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import tertulia
from tertulia.testing import call, say
from tests.delegation.delegation_stage import Play, create, destroy, play, send

NOT_FOUND = {"ok": False, "code": "not_found", "reason": "conversation not found"}


async def family(on: Play) -> tuple[tertulia.Conversation, ...]:
    """A (subtree) → B → C, and a stranger."""
    stranger = await on.session.open(title="stranger")
    a = await on.session.open(title="a", visibility="subtree")
    on.write(say("", create(title="b")), say("", create(title="c")), "C", "B", "A")
    await a.message("go")
    b, c = on.session.conversations()[-2:]
    return a, b, c, stranger


async def ask(on: Play, who: tertulia.Conversation, *calls: Any) -> list[dict[str, Any]]:
    """What the calls of one answer come to."""
    before = len(on.outputs(who))
    on.write(say("", *calls))
    await who.message("go")
    return on.heard(who)[before:]


async def listed(on: Play, who: tertulia.Conversation) -> list[dict[str, Any]]:
    (answer,) = await ask(on, who, call("conv_list", {}, "l1"))
    return answer["conversations"]


def history(whom: tertulia.Conversation, call_id: str) -> Any:
    return call("conv_history", {"conversation_id": whom.id}, call_id)


async def test_by_default_everybody_can_be_listed_read_and_sent_to() -> None:
    """DESIGN, Scheduling"""
    async with play() as on:
        a, b = await on.session.open(), await on.session.open()
        assert [line["id"] for line in await listed(on, a)] == on.ids()
        read, sent = await ask(on, a, history(b, "h1"), send(b, "s1"))
        assert (read["ok"], sent["ok"]) == (True, True)


async def test_a_subtree_is_oneself_and_those_below() -> None:
    """Visibility = subtree, for all four tools; children inherit it."""
    async with play() as on:
        a, b, c, stranger = await family(on)
        assert [line["title"] for line in await listed(on, a)] == ["a", "b", "c"]
        assert [line["title"] for line in await listed(on, b)] == ["b", "c"]
        assert [line["title"] for line in await listed(on, c)] == ["c"]
        assert [line["title"] for line in await listed(on, stranger)] == [None, "stranger", "a", "b", "c"]
        # Who stands above is not to be seen, not even as somebody's parent.
        assert [line["parent_id"] for line in await listed(on, b)] == [None, b.id]


@pytest.mark.parametrize("tool", ["conv_send", "conv_history", "conv_destroy"])
async def test_what_is_out_of_sight_is_not_found_like_what_never_was(tool: str) -> None:
    async with play() as on:
        a, b, c, stranger = await family(on)
        before = on.ids()
        for who, target in [(a, stranger), (a, on.root), (b, a), (c, b), (c, on.root), (b, stranger)]:
            arguments = {"conversation_id": target.id} | ({"text": "hi"} if tool == "conv_send" else {})
            assert await ask(on, who, call(tool, arguments, "x1")) == [NOT_FOUND]
            assert not [entry for entry in await target.history() if entry.text == "hi"]
        assert await ask(on, a, call(tool, {"conversation_id": "root", "text": "hi"}, "x1"))
        assert on.ids() == before


async def test_those_below_can_be_read_sent_to_and_destroyed() -> None:
    async with play() as on:
        a, b, c, _ = await family(on)
        answer = await ask(on, a, history(c, "h1"), send(c, "s1"), destroy(b, "d1"))
        assert [entry["ok"] for entry in answer] == [True, True, True]
        assert b.id not in on.ids()


async def test_a_grandchild_stays_in_sight_when_its_parent_is_gone() -> None:
    async with play() as on:
        a, b, c, _ = await family(on)
        await b.close()
        assert [line["title"] for line in await listed(on, a)] == ["a", "c"]
        (answer,) = await ask(on, a, history(c, "h1"))
        assert answer["ok"]


async def test_one_that_was_closed_is_not_found_where_nobody_knows_whose_it_was() -> None:
    async with play() as on:
        a, b, _, _ = await family(on)
        await b.close()
        assert await ask(on, a, history(b, "h1")) == [NOT_FOUND]


async def test_a_fork_stands_beside_what_it_was_made_from() -> None:
    async with play() as on:
        a, b, _, _ = await family(on)
        fork = await b.fork()
        assert fork.id in [line["id"] for line in await listed(on, a)]
        assert fork.id not in [line["id"] for line in await listed(on, b)]


async def test_a_child_cannot_see_more_than_the_one_that_asks_it() -> None:
    """B11: rights are the chain's. A conversation that may see everything does not look around for one that may not."""
    async with play() as on:
        a = await on.session.open(title="a")
        on.write(say("", create(title="b")), "B", "A")
        await a.message("go")
        b = on.session.conversations()[-1]
        await a.set_context(visibility="subtree")
        assert len(await listed(on, b)) == 3
        on.write(say("", send(b, "s1")), say("", call("conv_list", {}, "l2")), "B", "A")
        await a.message("what do you see?")
        assert [line["title"] for line in on.heard(b)[-1]["conversations"]] == ["b"]


async def test_what_was_read_keeps_the_policy_it_was_said_under() -> None:
    """DESIGN, Storage: each record carries the strictest policy of its sources; titles are words as well."""
    async with play() as on:
        await on.session.open(storage_policy="headers_only", title="quiet")
        quiet = on.session.conversations()[-1]
        plain = await on.session.open()
        on.write("hush")
        await quiet.message("a secret")
        on.write(say("", history(quiet, "h1"), history(plain, "h2"), call("conv_list", {}, "l1")), "A")
        await on.root.message("go")
        policies = {output.call_id: output.storage for output in on.outputs(on.root)}
        assert policies == {"h1": tertulia.HeadersOnly(), "h2": None, "l1": tertulia.HeadersOnly()}
        on.write(say("", call("conv_list", {}, "l2")), "ok")
        await quiet.close()
        await on.root.message("again")
        assert on.outputs(on.root)[-1].storage is None
