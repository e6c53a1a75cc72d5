"""I come from Codex and Claude Code, type what I know from there, and want to be told each time what to type here.

Issue 19, "Done when", journey 9: every answer of the program is followed to the letter, until it works.
"""

from __future__ import annotations

from tests.journeys.person import PROMPT, Person
from tests.journeys.provider import serving

THEIRS = """
model = "qwen3"
model_provider = "mine"
sandbox_mode = "read-only"
approval_policy = "never"

[model_providers.mine]
name = "Mine"
base_url = "{url}"
wire_api = "chat"
models = ["qwen3"]
"""


def test_each_mistake_says_what_to_do_and_doing_it_works(person: Person) -> None:
    with serving("At last.") as provider:
        # A file of Codex: all that is unknown of it at once, then the table of the provider, key by key.
        mine = THEIRS.format(url=provider.url)
        person.configures(mine)
        result = person.tertulia("exec", "hello")
        assert result.code == 2
        assert "'sandbox_mode'; did you mean sandbox?" in result.err
        mine = mine.replace("sandbox_mode", "sandbox")
        person.configures(mine)
        assert "`models`; a provider needs no list of models" in person.tertulia("exec", "hello").err
        mine = mine.replace('models = ["qwen3"]\n', "")
        # What names the provider and its wire is understood as it is.
        person.configures(mine)
        assert person.tertulia("exec", "hello").out == "At last.\n"
        mine = mine.replace('model_provider = "mine"\n', "")
        person.configures(mine)
        result = person.tertulia("exec", "hello")
        assert "model 'qwen3' must be written `provider/model`; did you mean mine/qwen3?" in result.err
        mine = mine.replace('"qwen3"', '"mine/qwen3"')
        person.configures(mine)

        # Command lines of both.
        for line, instead in (
            (("execc", "hello"), "did you mean exec?"),
            (("exec", "--yolo", "hello"), "`-s danger-full-access -a never`"),
            (("exec", "-p", "hello"), "`tertulia exec PROMPT`"),
            (("exec", "--sandbox", "full-access", "hello"), "did you mean danger-full-access?"),
            (("exec", "say", "hello"), "put it in quotes"),
            (("exec", "--system-prompt", "Be brief.", "hello"), "`--instructions FILE|TEXT`"),
            (("chat",), "`tertulia` alone"),
        ):
            result = person.tertulia(*line)
            assert (result.code, result.out) == (2, ""), line
            assert instead in result.err, result.err

        # And as the last answer said: `tertulia` alone, at a terminal.
        with person.sits_at("--plain") as screen:
            screen.waits_for(PROMPT)
            screen.types("hello\n")
            screen.waits_for("At last.")
            screen.waits_for(PROMPT)
            screen.types("/quit\n/exit\n")
            screen.ends()
        assert len(provider.asked) == 2, "no mistake went to the model"
