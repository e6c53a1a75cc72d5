"""The wires that a session makes: one for each conversation, closed when nobody needs it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.scheduler.nursery import Nursery
from tertulia.session.terms import WireCache
from tertulia.testing import ScriptedModel


class Line(ScriptedModel):
    """A wire that counts how often it was closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


def make(model: object) -> Any:
    if not isinstance(model, str):
        return model
    if model.startswith("nope/"):
        raise InvalidParamsError("no such provider")
    return Line(name=model)


@pytest.fixture
async def nursery() -> Nursery:
    return Nursery()


async def test_each_conversation_gets_a_wire_of_its_own(nursery: Nursery) -> None:
    """S002-02, S002-03"""
    cache = WireCache(make, nursery)
    first = cache.find("acme/one")
    second = cache.another(first)
    assert second is not first
    assert second.name == first.name
    assert cache.made() == [first, second]


async def test_a_wire_that_the_user_made_is_shared_and_never_closed(nursery: Nursery) -> None:
    own = Line()
    cache = WireCache(make, nursery)
    assert cache.find(own) is own
    assert cache.another(own) is own
    cache.let_go(own)
    assert (own.closed, len(cache), len(nursery)) == (0, 0, 0)


async def test_a_script_is_played_to_all_conversations(nursery: Nursery) -> None:
    cache = WireCache(make, nursery)
    script = cache.find("scripted/tour")
    assert cache.another(script) is script


async def test_a_wire_that_is_let_go_is_closed_once(nursery: Nursery) -> None:
    cache = WireCache(make, nursery)
    wire = cache.find("acme/one")
    cache.let_go(wire)
    cache.let_go(wire)
    await asyncio.sleep(0)
    assert await nursery.close(1) == 0
    assert (wire.closed, cache.made()) == (1, [])


async def test_an_unknown_model_leaves_nothing_in_the_cache(nursery: Nursery) -> None:
    cache = WireCache(make, nursery)
    with pytest.raises(InvalidParamsError):
        cache.find("nope/x")
    assert len(cache) == 0
