"""An agent that is there, and what it is told when its providers change their minds."""

from __future__ import annotations

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.provider import Fragment, SessionContext
from tertulia.session.agents.lifecycle import (
    ActiveAgent,
    context_updates,
    injected_texts,
    tell_changes,
    withdrawal_text,
)
from tests.session.agents_stage import EMPLOYEE, Porter
from tests.session.staging import stage
from tests.tables import each_row

ADA = AgentInstanceMeta(name="ada")


def context(*warnings: str, **texts: str) -> SessionContext:
    fragments = tuple(Fragment(name, text, 1) for name, text in texts.items())
    return SessionContext([], [], list(texts.values()), "", fragments=fragments, warnings=warnings)


def test_who_says_nothing_any_more_has_taken_it_back_until_he_speaks_again() -> None:
    agent = ActiveAgent(ADA, context(a="one", b="two"))
    assert agent.current_texts == ["one", "two"]
    agent = agent.followed_by(context(b="two"))
    assert (agent.silent, agent.current_texts) == (("a",), ["two", "What was said above by a no longer holds."])
    agent = agent.followed_by(context(b="two"))
    assert agent.silent == ("a",)
    assert agent.followed_by(context(a="one", b="two")).silent == ()


def test_where_somebody_did_not_answer_nobody_has_taken_anything_back() -> None:
    agent = ActiveAgent(ADA, context(a="one", b="two"))
    assert agent.followed_by(context("a timed out", b="three")).silent == ()
    silent = agent.followed_by(context(b="two"))
    assert silent.followed_by(context("b raised")).silent == ("a",)


async def test_of_several_updates_the_last_is_enough() -> None:
    """Trimming may leave the first message and the last update: together they say what holds."""
    porters = [Porter("weather", text="Rain."), Porter("lunch", text="Soup.")]
    async with stage("1", "2", "3", providers=porters, cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        conversation = acting.parts.conversations.find(agent.id)
        porters[0].text = "Sun."
        await agent.message("go")
        porters[1].text = "Fish."
        await agent.message("go")
        porters[0].text = "Rain."
        await agent.message("go")
        updates = [text for text in injected_texts(conversation) if text.startswith("<context_update>")]
        assert [("Sun." in text, "Fish." in text, "Rain." in text) for text in updates] == [
            (True, False, False), (True, True, False), (False, True, True),
        ]  # fmt: skip


async def test_what_is_said_already_is_not_said_again() -> None:
    async with stage(cwd="/usr") as acting:
        conversation = acting.parts.conversations.root
        before = injected_texts(conversation)
        tell_changes(conversation, ["one"], ["one"])
        assert injected_texts(conversation) == before
        tell_changes(conversation, ["one"], ["two"])
        assert injected_texts(conversation) == [*before, "<context_update>\n\ntwo\n\n</context_update>"]


# ---- of a context that has changed an agent is told what is new, and what it needs besides what it was


@each_row(
    ("before", "now", "news"),
    [
        ([], [], []),
        (["one"], ["one"], []),
        (["one"], ["two"], ["two"]),
        (["one"], ["one", "two"], ["two"]),
        (["one", "two"], ["two", "one"], []),
        (["one", "two"], ["two"], []),
        (["## x\n\n1\n\n## y\n\n2"], ["## x\n\n1\n\n## y\n\n3"], ["## y\n\n3"]),
        (["head\n## x\n1"], ["other\n## x\n1"], ["other"]),
        (["## x\n\n1"], ["## x\n\n1\n"], []),
        (["a # b\n### c"], ["a # b\n### d"], ["a # b\n### d"]),
        (["one"], ["", "one"], []),
    ],
)
def test_sections_that_were_said_word_for_word_are_not_repeated(
    before: list[str], now: list[str], news: list[str]
) -> None:
    """Issue 9, item 1: dynamic refresh."""
    assert context_updates("\n".join(before), before, now) == news


def test_the_last_update_is_enough() -> None:
    """Earlier ones may be trimmed: whatever differs from the first message is in it."""
    first, then, now = ["rain", "soup"], ["sun", "soup"], ["sun", "fish"]
    assert context_updates("rain\nsoup", first, then) == ["sun"]
    assert context_updates("rain\nsoup", then, now) == ["sun", "fish"]
    assert context_updates("rain\nsoup", now, now) == []


def test_what_is_again_as_it_was_at_first_is_said_again_once() -> None:
    assert context_updates("rain", ["sun"], ["rain"]) == ["rain"]
    assert context_updates("rain\nsoup", ["rain", "soup"], ["rain", "fish"]) == ["fish"]


def test_whose_text_is_gone_is_a_text_like_others() -> None:
    gone = withdrawal_text("porter")
    assert context_updates("rain", ["rain"], [gone]) == [gone]
    assert context_updates("rain", [gone], [gone]) == []
