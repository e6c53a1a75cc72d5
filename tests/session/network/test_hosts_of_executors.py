"""Issue 26: an executor's own sandbox knows no hosts, so a list is refused: at open, at a change, and in a chain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import UnsupportedByBackendError
from tertulia.testing import ScriptedModel, call
from tests.tables import each_row

RULES = {"allow": ["files.example"]}
SENTENCE = r"backend {} confines its commands itself and knows no hosts by name.*only files\.example; give its"


def settings(folder: Path, *replies: Any, **fields: Any) -> tertulia.Settings:
    code = f"open({str(folder / 'ran')!r}, 'w'); print('done')"
    table = {"command": [sys.executable, "-c", code], "sandbox": {"workspace-write": []}}
    tables = {"executors": {"own": table}, "acp": {"own": {**table, "sandbox": {"workspace-write": {}}}}}
    return tertulia.Settings(model=ScriptedModel(list(replies)), cwd=str(folder), **{**tables, **fields})


@each_row("backend", ["codex", "claude", "command:own", "acp:codex", "acp:own"])
async def test_a_list_is_refused_where_an_executor_confines_itself(backend: str, tmp_path: Path) -> None:
    async with tertulia.Session.start(settings(tmp_path, network=RULES)) as session:
        before = [one.id for one in session.parts.conversations]
        with pytest.raises(UnsupportedByBackendError, match=SENTENCE.format(backend)):
            await session.open(backend=backend)
        with pytest.raises(UnsupportedByBackendError, match=SENTENCE.format(backend)):
            await session.root.set_context(backend=backend)
        assert [one.id for one in session.parts.conversations] == before
        assert session.parts.conversations.root.terms.backend == "native"
        # All it takes is to say which of the two its sandbox knows.
        opened = await session.open(backend=backend, network=False)
        with pytest.raises(UnsupportedByBackendError, match=SENTENCE.format(backend)):
            await opened.set_context(network=True)
        assert session.parts.conversations.find(opened.id).terms.rights.network is False


async def test_a_list_that_a_caller_has_is_refused_for_its_executor_too(tmp_path: Path) -> None:
    ids: list[str] = []

    def sends(request: Any) -> Any:
        return call("conv_send", {"conversation_id": ids[0], "text": "go"})

    async with tertulia.Session.start(settings(tmp_path, sends, "end", network=True)) as session:
        helper = await session.open(backend="command:own")
        ids.append(helper.id)
        assert (await helper.message("go")).text == "done"
        (tmp_path / "ran").unlink()
        narrower = await session.open(network=RULES)
        await narrower.message("ask it")
        model = session.parts.root_wire
        assert isinstance(model, ScriptedModel)
        (output,) = [item for item in model.requests[-1].items if isinstance(item, tertulia.ToolOutput)]
        assert "knows no hosts by name" in output.text
        assert not (tmp_path / "ran").exists()
