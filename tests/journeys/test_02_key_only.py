"""I have a key of OpenAI and nothing else, and do not want to read about configuration.

Issue 19, "Done when", journey 2. The provider is on loopback, by OPENAI_BASE_URL.
"""

from __future__ import annotations

from tests.journeys.person import PROMPT, Person
from tests.journeys.provider import serving

KEY = "sk-proj-" + "k1" * 20


def test_a_key_is_enough_in_a_variable_or_kept(person: Person) -> None:
    with serving("Hello, Ana.", wants_key=KEY) as server:
        person.exports(OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY)

        # In a variable.
        result = person.tertulia("exec", "Greet Ana")
        assert (result.code, result.out) == (0, "Hello, Ana.\n")
        assert (server.asked[0].path, server.asked[0].key) == ("/v1/responses", KEY)

        # What a pipe brings is data for the question.
        piped = person.tertulia("exec", "Greet everyone in this list", input="Ana\nBruno\n")
        assert piped.code == 0
        assert "Bruno" in server.asked[1].text

        # How it is to answer, for this one question.
        assert person.tertulia("exec", "--instructions", "You rhyme.", "Greet Ana").code == 0
        assert "You rhyme." in server.asked[2].text

        # A wrong one: it says where it came from, and does not show it.
        person.exports(OPENAI_API_KEY="sk-proj-" + "wrong" * 8)
        wrong = person.tertulia("exec", "Greet Ana")
        assert wrong.code == 1
        assert "openai refused the key (401)" in wrong.err
        assert "OPENAI_API_KEY" in wrong.err
        assert "wrongwrong" not in wrong.err

        # Kept for good: typed once at a terminal, where it is not shown.
        del person.variables["OPENAI_API_KEY"]
        missing = person.tertulia("exec", "Greet Ana")
        assert missing.code == 2
        assert "tertulia login" in missing.err
        with person.sits_at("login", "openai") as screen:
            screen.waits_for("it is not shown")
            screen.types(f"{KEY}\n")
            assert screen.ends() == 0
            assert KEY not in screen.seen
        with person.sits_at("--plain") as screen:
            assert "openai/gpt-5.2" in screen.waits_for(PROMPT)
            screen.types("Greet Ana\n")
            screen.waits_for("Hello, Ana.")
            screen.waits_for(PROMPT)
            screen.types("\x04")
            assert screen.ends() == 0
        assert server.asked[-1].key == KEY

    # It is in no record of what was said.
    paths = [path for path in person.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert [path.name for path in paths] in (["keys.json"], [])
