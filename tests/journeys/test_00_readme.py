"""I have read the first screen of the README, and type what stands there.

Issue 19, "Done when": README begins with install, key, `exec`, chat.
"""

from __future__ import annotations

import re
import shlex

from tests.journeys.person import PROMPT, ROOT, Person
from tests.journeys.provider import serving


def test_the_first_lines_of_the_readme_are_true_to_the_word(person: Person) -> None:
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    install, key, task, chat, later = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    # The package is installed already: this program is the one that runs here.
    assert install == ["pip", "install", ".[tui]"]
    assert (ROOT / "pyproject.toml").exists()

    with serving("It holds many conversations.", "Good morning.", "Welcome back.") as provider:
        assert key[0] == "export"
        name, _, value = key[1].partition("=")
        person.exports(OPENAI_BASE_URL=provider.url, **{name: value.replace("…", "journey")})
        # What the screen shows is in tests/terminal; here a person reads lines.
        person.exports(ACCESSIBLE="1")
        done = person.runs(*task)
        assert (done.code, done.out) == (0, "It holds many conversations.\n")
        for line, answer in ((chat, "Good morning."), (later, "Welcome back.")):
            assert line[0] == "tertulia"
            with person.sits_at(*line[1:]) as screen:
                screen.waits_for(PROMPT)
                screen.types("hello\n")
                screen.waits_for(answer)
                screen.waits_for(PROMPT)
                screen.types("/exit\n")
                assert screen.ends() == 0
        assert "Good morning." in provider.asked[2].text, "it goes on where it left off"
