"""An agent that is there, and what it is told when its providers change their minds."""

from __future__ import annotations

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.provider import Fragment, SessionContext
from tertulia.session.agents.active_agent import ActiveAgent, injected_texts, tell_changes
from tests.session.agents_stage import EMPLOYEE, Porter
from tests.session.staging import stage

ADA = AgentInstanceMeta(name="ada")


def context(*warnings: str, **texts: str) -> SessionContext:
    fragments = tuple(Fragment(name, text, 1) for name, text in texts.items())
    return SessionContext([], [], list(texts.values()), "", fragments=fragments, warnings=warnings)


def test_who_says_nothing_any_more_has_taken_it_back_until_he_speaks_again() -> None:
    agent = ActiveAgent(ADA, context(a="one", b="two"))
    assert agent.said == ["one", "two"]
    agent = agent.followed_by(context(b="two"))
    assert (agent.silent, agent.said) == (("a",), ["two", "What was said above by a no longer holds."])
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
