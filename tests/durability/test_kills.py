"""Killed at any moment, at any call of its storage: a session keeps every word it gave.

A process lives the reference session and writes down what it was told; it is killed; another one resumes what is left
and holds it to that (see `reference` and `afterlife`).
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.durability.children import Children
from tests.durability.families import Point, judged, on_all, points_of
from tests.rollout.faults import needs_strace
from tests.thorough import sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("kills")]


def test_who_lives_on_keeps_its_word(families: SimpleQueue[Children], room: Path) -> None:
    """The reference session itself, and that a broken word is noticed."""
    children = families.get()
    try:
        assert children.run("live", room / "a", "whole", "normal") == 0
        text = (room / "a" / "told").read_text()
        kinds = set(re.findall(r'^\{"(\w+)"', text, re.MULTILINE))
        promised = {"opened", "context", "compacted", "forked", "steered", "detached", "closed"}
        assert kinds == {"session", "event", "reply"} | promised
        assert len((room / "a" / "effects").read_text().splitlines()) == 8
        assert '"decision": "allow", "scope": "session"' in text
        for lie in ('"text": "answer to', '"seq": 30', '"items": ', '"user_instructions": "be long'):
            shutil.copytree(room / "a", room / "lie")
            assert lie in text
            (room / "lie" / "told").write_text(text.replace(lie, lie + "7"))
            assert children.check(room / "lie") is not None, lie
            shutil.rmtree(room / "lie")
        assert children.check(room / "a") is None
    finally:
        families.put(children)


# ── at every call ────────────────────────────────────────────────────────────────────────────────────────────────


def kill_at(families: SimpleQueue[Children], room: Path, part: str, points: Sequence[Point]) -> None:
    died: list[Point] = []

    def once(children: Children, number: int) -> str | None:
        name, k = points[number]
        folder = room / f"{name}-{k}"
        inject = ("-e", f"inject={name}:signal=KILL:when={k}", "-e", f"trace={name}")
        if children.run("live", folder, part, "full", *inject) == signal.SIGKILL:
            died.append((name, k))
        return judged(children, folder, (name, k))

    wrong = on_all(families, once, len(points))
    sys.stdout.write(f"{len(points) - len(wrong)}/{len(points)} kills at calls cost nothing; {len(died)} really died\n")
    assert not wrong, "\n".join(wrong)
    # A few calls come a little more or less often from life to life; all others were really reached.
    assert len(died) >= len(points) * 0.9


@needs_strace
def test_killed_at_any_storage_call_of_a_turn_nothing_acknowledged_is_lost(
    families: SimpleQueue[Children], room: Path
) -> None:
    """F1, F10, F13, target 3: tools with effects and a delegation, at every call in `make torture`."""
    kill_at(families, room, "turn", sample(points_of(families, room, "turn"), 30))


@needs_strace
@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_killed_at_every_storage_call_of_a_whole_session_nothing_acknowledged_is_lost(
    families: SimpleQueue[Children], room: Path
) -> None:
    """F1, F10, F11, F13, target 3: compaction, fork, changed terms and steering as well."""
    kill_at(families, room, "whole", points_of(families, room, "whole"))
