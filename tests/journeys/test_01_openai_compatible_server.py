"""I have a model server on this machine (vLLM, LM Studio, llama.cpp) and want to ask it something, then to chat.

Issue 19, "Done when", journey 1.
"""

from __future__ import annotations

from tests.journeys.person import PROMPT, Person
from tests.journeys.provider import serving

MINE = '[model_providers.mine]\nbase_url = "{url}"\nwire = "chat"\n'


def test_from_an_address_to_a_chat_that_goes_on_tomorrow(person: Person) -> None:
    # Nothing is set up: I am told the ways, and nothing is made up.
    first = person.tertulia("exec", "What is a tertulia?")
    assert (first.code, first.out) == (2, "")
    assert "no model is set up" in first.err
    assert "--model local" in first.err

    with serving("A gathering to talk.", "In a café.", "In Spain.", "Since the 17th century.", "Yes.") as server:
        # The address goes into one file.
        person.configures(MINE.format(url=server.url))
        assert "mine" in person.tertulia("models", "ls").out
        result = person.tertulia("exec", "-m", "mine/qwen3", "What is a tertulia?")
        assert (result.code, result.out) == (0, "A gathering to talk.\n")
        assert server.asked[0].path == "/v1/chat/completions"
        assert (server.asked[0].body["model"], server.asked[0].key) == ("qwen3", None)
        # One quiet line says what it works with, and can be switched off.
        header = result.err.splitlines()[0]
        for part in ("mine/qwen3", str(person.project), "workspace-write", "session "):
            assert part in header
        assert person.tertulia("exec", "--quiet", "-m", "mine/qwen3", "And where?").err == ""

        # And so does the model, so that I need not name it.
        person.configures(f'model = "mine/qwen3"\n{MINE.format(url=server.url)}')
        with person.sits_at("--plain") as screen:
            assert "mine/qwen3" in screen.waits_for(PROMPT)
            screen.types("Where was it?\n")
            screen.waits_for("In Spain.")
            screen.waits_for(PROMPT)
            screen.types("Since when?\n")
            screen.waits_for("Since the 17th century.")
            screen.waits_for(PROMPT)
            screen.types("/exit\n")
            assert screen.ends() == 0
        assert "In Spain." in server.asked[3].text, "the second question has the first answer before it"

        # What was said is there the next day.
        again = person.tertulia("exec", "resume", "--last", "Is that so?")
        assert (again.code, again.out) == (0, "Yes.\n")
        assert "Since the 17th century." in server.asked[4].text

    # The server is switched off: I am asked the right question.
    off = person.tertulia("exec", "Are you there?")
    assert off.code == 1
    assert "connection refused; is it running?" in off.err
