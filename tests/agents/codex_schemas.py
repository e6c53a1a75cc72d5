"""What Codex itself says its messages look like: printed by the installed program, one schema a method."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jsonschema import Draft7Validator

from tests.agents.installed import AGENTS, REAL
from tests.deadlines import HANG_S

_ANSWERS = {
    "initialize": "v1/InitializeResponse",
    "thread/start": "v2/ThreadStartResponse",
    "thread/resume": "v2/ThreadResumeResponse",
    "thread/fork": "v2/ThreadForkResponse",
    "thread/list": "v2/ThreadListResponse",
    "thread/loaded/list": "v2/ThreadLoadedListResponse",
    "thread/read": "v2/ThreadReadResponse",
    "thread/archive": "v2/ThreadArchiveResponse",
    "thread/unarchive": "v2/ThreadUnarchiveResponse",
    "thread/compact/start": "v2/ThreadCompactStartResponse",
    "thread/name/set": "v2/ThreadSetNameResponse",
    "thread/delete": "v2/ThreadDeleteResponse",
    "thread/unsubscribe": "v2/ThreadUnsubscribeResponse",
    "thread/turns/list": "v2/ThreadTurnsListResponse",
    "thread/items/list": "v2/ThreadItemsListResponse",
    "thread/goal/set": "v2/ThreadGoalSetResponse",
    "thread/goal/get": "v2/ThreadGoalGetResponse",
    "thread/goal/clear": "v2/ThreadGoalClearResponse",
    "turn/start": "v2/TurnStartResponse",
    "turn/steer": "v2/TurnSteerResponse",
    "turn/interrupt": "v2/TurnInterruptResponse",
    "model/list": "v2/ModelListResponse",
    "skills/list": "v2/SkillsListResponse",
    "account/read": "v2/GetAccountResponse",
    "config/mcpServer/reload": "v2/McpServerRefreshResponse",
}


class Schemas:
    """Validates whatever a server sends. A message that no schema is for is a mistake too."""

    def __init__(self, folder: Path) -> None:
        self._answers = {method: _read(folder / f"{name}.json") for method, name in _ANSWERS.items()}
        self._error = _read(folder / "JSONRPCError.json")
        self._notifications = _by_method(folder / "ServerNotification.json")
        self._requests = _by_method(folder / "ServerRequest.json")
        self.client_methods = frozenset(_by_method(folder / "ClientRequest.json"))
        self.checked = 0

    def check(self, message: dict[str, Any], answers: str | None) -> None:
        """`answers`: the method of the request that it answers, if it is an answer."""
        assert "jsonrpc" not in message, message
        if "error" in message:
            self._error.validate(message)
        elif "method" not in message:
            assert answers is not None, message
            assert set(message) == {"id", "result"}, message
            self._answers[answers].validate(message["result"])
        else:
            known = self._requests if "id" in message else self._notifications
            assert message["method"] in known, message["method"]
            known[message["method"]].validate(message["params"])
        self.checked += 1


@cache
def schemas() -> Schemas | None:
    """None where Codex is not installed: then nothing is validated, and a test of its own says so."""
    found = sorted(AGENTS.glob(REAL["codex"].where))
    if not found:
        return None
    with TemporaryDirectory() as folder:
        command = [str(found[0]), "app-server", "generate-json-schema", "--out", folder]
        subprocess.run(command, env={"HOME": folder}, check=True, capture_output=True, timeout=HANG_S)
        return Schemas(Path(folder))


def _read(path: Path) -> Draft7Validator:
    return Draft7Validator(json.loads(path.read_text()))


def _by_method(path: Path) -> dict[str, Draft7Validator]:
    """The parameters of each method of a union."""
    document = json.loads(path.read_text())
    made = {}
    for option in document["oneOf"]:
        fields = option["properties"]
        params = fields.get("params", {})
        made[fields["method"]["enum"][0]] = Draft7Validator({**params, "definitions": document["definitions"]})
    return made
