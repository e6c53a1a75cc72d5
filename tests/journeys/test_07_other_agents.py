"""I have other agents, a script of mine, one that speaks ACP, and Codex, and want them to do the work of conversations.

Issue 19, "Done when", journey 7. Codex is the real program where it is installed, at a provider on loopback.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.agents.installed import REAL
from tests.agents.provider import provider as provider_of_agents
from tests.journeys.person import ROOT, Person
from tests.journeys.provider import serving

PARROT = "import sys; print('parrot:', sys.stdin.read().strip().upper())"
ACP_AGENT = ROOT / "tests" / "executors" / "acp_fake.py"
EVERY_MODE = "{read-only = [], workspace-write = []}"
MODES_OF_ACP = "{read-only = {}, workspace-write = {}}"


def as_toml(table: Mapping[str, Any]) -> str:
    """Texts, lists of them and tables of them, of which TOML has nearly the spelling of JSON."""
    return "".join(
        f"{key} = {{{', '.join(f'{json.dumps(k)} = {json.dumps(v)}' for k, v in value.items())}}}\n"
        if isinstance(value, Mapping)
        else f"{key} = {json.dumps(value)}\n"
        for key, value in table.items()
    )


def test_a_script_and_an_agent_of_acp_do_the_work(person: Person) -> None:
    with serving("I am the model.") as provider:
        person.configures(
            f'model = "mine/qwen3"\n[model_providers.mine]\nbase_url = "{provider.url}"\nwire = "chat"\n'
            f"[executors.parrot]\n{as_toml({'command': [sys.executable, '-c', PARROT]})}sandbox = {EVERY_MODE}\n"
            f"[acp.helper]\n{as_toml({'command': [sys.executable, str(ACP_AGENT), 'plain']})}sandbox = {MODES_OF_ACP}\n"
        )
        listing = person.tertulia("executors", "ls")
        assert listing.code == 0, listing.err
        listed = listing.out
        assert "command:parrot" in listed
        assert "acp:helper" in listed

        # A slip in the name is answered with the names that there are.
        slip = person.tertulia("exec", "--backend", "command:parot", "hello")
        assert slip.code == 2
        assert "did you mean command:parrot?" in slip.err

        parrot = person.tertulia("exec", "--backend", "command:parrot", "pretty polly")
        assert (parrot.code, parrot.out) == (0, "parrot: PRETTY POLLY\n"), parrot.err
        helper = person.tertulia("exec", "--backend", "acp:helper", "say good morning")
        assert helper.code == 0, helper.err
        assert "good morning" in helper.out
        assert provider.asked == [], "no model of mine was asked"

        # The same session goes on with my own model, which knows what was said.
        own = person.tertulia("exec", "resume", "--last", "--backend", "native", "Who was that?")
        assert (own.code, own.out) == (0, "I am the model.\n"), own.err
        assert "good morning" in provider.asked[0].text


def test_codex_itself_does_the_work_and_remembers(person: Person, tmp_path: Path) -> None:
    codex = REAL["codex"]
    codex.program()
    with provider_of_agents() as provider:
        table = codex.table(tmp_path / "codex-home", provider.url)
        table["env"] = {**table["env"], "HOME": str(tmp_path / "codex-home")}
        person.configures(f"[executors.codex]\n{as_toml(table)}")
        first = person.tertulia("exec", "--backend", "codex", "Remember the word tea")
        assert (first.code, first.out) == (0, "the-answer-number-1\n"), first.err
        second = person.tertulia("exec", "resume", "--last", "Which word?")
        assert (second.code, second.out) == (0, "the-answer-number-2\n"), second.err
        assert "Remember the word tea" in provider.bodies[1]
