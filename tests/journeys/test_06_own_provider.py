"""My company has a model behind an API that no one else has, and I want to use it like any other.

Issue 19, "Done when", journey 6: a wire of my own, as an object in my program and as an installed package.
"""

from __future__ import annotations

import sys

from tests.journeys.person import PROMPT, Person

WIRE = '''
"""Speaks to the acme model, which says back what it heard, in capitals."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence

from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerItem, AnswerPiece, ModelRequest, TextDelta
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, UserMessage, text_parts
from tertulia.protocol.tool_spec import ToolSpec


class AcmeDialect:
    name = "acme"

    def encode_items(self, items: Sequence[Item]) -> bytes:
        return b",".join(json.dumps(item.text).encode() for item in items if isinstance(item, UserMessage))

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        return b"[]"


class AcmeWire:
    family = "acme"
    context_window = 8_000
    dialect = AcmeDialect()

    def __init__(self, model: str, key: str) -> None:
        self.name = f"acme/{model}"
        self._key = key

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece]:
        if not self._key:
            yield AnswerFailure("no key for acme: the environment variable ACME_KEY is not set")
            return
        heard = json.loads(b"[" + b",".join(request.chunks) + b"]")
        text = heard[-1].upper()
        item_id = new_item_id()
        yield TextDelta(item_id, text)
        yield AnswerItem(AssistantMessage(item_id, text_parts(text)))
        yield AnswerEnd()

    async def close(self) -> None:
        pass


def make_wire(model: str, variables: Mapping[str, str]) -> AcmeWire:
    return AcmeWire(model, variables.get("ACME_KEY", ""))
'''

PROGRAM = """
import tertulia
from acme_wire import AcmeWire

reply = tertulia.run("is it tea?", tertulia.Settings(model=AcmeWire("small", "secret"), sandbox="read-only"))
print(reply.text)
"""


def test_a_wire_of_my_own_answers_in_python_and_on_the_command_line(person: Person) -> None:
    # In my program it is an object.
    person.writes("acme_wire.py", WIRE)
    program = person.writes("ask.py", PROGRAM)
    ran = person.runs(sys.executable, str(program))
    assert (ran.code, ran.out) == (0, "IS IT TEA?\n"), ran.err

    # Before it is installed the command line does not know it, and says which providers there are.
    unknown = person.tertulia("exec", "-m", "acme/small", "hello")
    assert unknown.code == 2
    assert "unknown provider 'acme'" in unknown.err
    assert "openai" in unknown.err

    # Installed as a package, with one line in its metadata, it is a provider like any other.
    installed = person.home / "site"
    about = installed / "acme_wire-1.0.dist-info"
    about.mkdir(parents=True)
    (installed / "acme_wire.py").write_text(WIRE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-wire\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tertulia.wires]\nacme = acme_wire:make_wire\n")
    person.exports(PYTHONPATH=str(installed))
    without = person.tertulia("exec", "-m", "acme/small", "hello")
    assert without.code == 1
    assert "ACME_KEY is not set" in without.err
    person.exports(ACME_KEY="secret")
    person.configures('model = "acme/small"\n')
    with person.sits_at("--plain") as screen:
        assert "acme/small" in screen.waits_for(PROMPT)
        screen.types("hello\n")
        screen.waits_for("HELLO")
        screen.waits_for(PROMPT)
        screen.types("/exit\n")
        assert screen.ends() == 0

    # A stored session finds it again.
    again = person.tertulia("exec", "resume", "--last", "and tomorrow?")
    assert (again.code, again.out) == (0, "AND TOMORROW?\n")
