"""Many conversations on one connection: an answer never reaches another than who asked."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.mcp.connected import Asked, call, reaching
from tests.mcp.fakes import bare, by_stdio, hostile


async def _cross(argv: tuple[str, ...], conversations: int, count: int) -> int:
    """Every call carries a canary of its own; the server answers each in a thread, so in any order."""
    right = 0
    async with reaching() as reach:
        link = await reach(by_stdio(argv))

        async def conversation(number: int) -> None:
            nonlocal right
            caller, dice = Asked(f"c{number}"), random.Random(number)
            for turn in range(count):
                canary = f"{number}-{turn}-{dice.getrandbits(64):x}"
                answer = await call(link, "echo", caller, text=canary + "x" * dice.choice((0, 10, 5_000)))
                assert answer.text.startswith(canary + "x") or answer.text == canary
                right += 1

        async with asyncio.TaskGroup() as group:
            for number in range(conversations):
                group.create_task(conversation(number))
    return right


async def test_answers_that_overtake_each_other_reach_who_asked() -> None:
    """HARDENING C8"""
    assert await _cross(bare("--tools", "echo"), 50, 20) == 1_000


async def test_answers_among_foreign_and_repeated_ids_reach_who_asked() -> None:
    """HARDENING C7, C8"""
    assert await _cross(hostile("wrong-ids"), 20, 10) == 200


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_a_million_answers_reach_who_asked() -> None:
    """HARDENING C8: no cross delivery over 1 M calls; CROSSINGS asks for fewer."""
    calls_each = int(os.environ.get("CROSSINGS", "1000000")) // 100
    assert await _cross(bare("--tools", "echo"), 100, calls_each) == calls_each * 100
