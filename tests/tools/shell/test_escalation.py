"""The words that models bring along: understood where they mean something, and never more than a escalation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.tools.shell.command_approval import EscalationRequest, read_escalation
from tertulia.tools.shell.exec_command import ExecCommand, WriteStdin
from tertulia.tools.shell.shell import PLAIN, LocalShell, Shell
from tertulia.tools.update_plan import UpdatePlan
from tertulia.tools.view_image import ViewImage
from tests.tools.test_images import PNG
from tests.tools.workbench import Workbench, allow, code, deny, workbench

KNOWN = {
    "shell": {"command", "workdir", "timeout_ms", "sandbox_permissions", "justification"},
    "local_shell": {"command", "working_directory", "timeout_ms"},
    "exec_command": {
        *("cmd", "workdir", "tty", "yield_time_ms", "max_output_tokens", "shell", "login"),
        *("sandbox_permissions", "justification"),
    },
    "write_stdin": {"session_id", "chars", "yield_time_ms", "max_output_tokens"},
    "update_plan": {"explanation", "plan"},
    "view_image": {"path"},
}
"""What each tool shows: each of these has an effect."""

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("shell", {"command": ["touch", "{made}"]}),
    ("local_shell", {"command": ["touch", "{made}"]}),
    ("exec_command", {"cmd": "touch {made}"}),
]


def asking(form: tuple[str, dict[str, Any]], made: Path, **more: Any) -> tuple[str, dict[str, Any]]:
    name, arguments = form
    return name, json.loads(json.dumps(arguments).replace("{made}", str(made))) | more


async def ask(bench: Workbench, form: tuple[str, dict[str, Any]], **more: Any) -> Any:
    return await bench.call(*asking(form, bench.outside / "made", **more))


def test_each_tool_shows_only_what_has_an_effect() -> None:
    """Issue 7: names as models know them, and no promise that is not kept."""
    for tool in (Shell, LocalShell, ExecCommand, WriteStdin, UpdatePlan, ViewImage):
        shown = json.loads(tool.spec.schema)
        assert (set(shown["properties"]), shown["additionalProperties"]) == (KNOWN[tool.spec.name], False)
    assert set(json.loads(PLAIN.schema)["properties"]) == {"command", "workdir", "timeout_ms"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
async def test_the_old_spelling_of_leaving_the_sandbox_is_asked_and_not_given(tmp_path: Path, form: Any) -> None:
    """X-19: `with_escalated_permissions` asks a person like `require_escalated` does."""
    async with workbench(tmp_path, deny) as bench:
        made = bench.outside / "made"
        old = {"with_escalated_permissions": True, "justification": "as before"}
        assert code(await ask(bench, form, **old)) == "approval_denied"
        assert [request.kind for request in bench.asked] == ["escalation"]
        assert "as before" in bench.asked[0].detail
        assert not made.exists()
        bench.answer = allow
        assert (await ask(bench, form, **old)).success
        assert made.exists()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
async def test_a_suggested_rule_is_shown_and_widens_nothing(tmp_path: Path, form: Any) -> None:
    """B5: what a yes matches is the one command, whatever the model would like."""
    async with workbench(tmp_path, lambda _: {"decision": "allow", "scope": "session"}) as bench:
        more = {"sandbox_permissions": "require_escalated", "justification": "why", "prefix_rule": ["touch"]}
        assert (await ask(bench, form, **more)).success
        (first,) = bench.asked
        assert "begins with the following; a yes does not allow that:\n│ touch" in first.detail
        assert not any("begins" in match for match in first.matches)
        bench.answer = deny
        other = asking(form, bench.outside / "another", **more)
        assert code(await bench.call(*other)) == "approval_denied"
        assert not (bench.outside / "another").exists()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
@pytest.mark.parametrize(
    ("escalation", "reason"),
    [
        ({"sandbox_permissions": "with_additional_permissions"}, "single permissions"),
        ({"additional_permissions": {"network": {"enabled": True}}}, "single permissions"),
        ({"environment_id": "elsewhere"}, "no environment 'elsewhere'"),
        ({"sandbox_permissions": "everything"}, "sandbox_permissions"),
        ({"sudo": True}, "sudo"),
    ],
)
async def test_what_nobody_could_allow_is_refused_with_a_reason(
    tmp_path: Path, form: Any, escalation: dict[str, Any], reason: str
) -> None:
    async with workbench(tmp_path, allow) as bench:
        result = await ask(bench, form, **escalation)
        assert code(result) == "invalid_params"
        assert reason in result.text
        assert bench.events == []
        assert not (bench.outside / "made").exists()


async def test_nothing_said_is_nothing_asked_for(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {
        "sandbox_permissions": None,
        "justification": None,
        "with_escalated_permissions": False,
        "prefix_rule": None,
        "environment_id": "local",
        "additional_permissions": {},
        "workdir": None,
    }
    async with workbench(tmp_path, deny) as bench:
        assert (await bench.shell("touch", "made", **nothing)).success
        waiting = {"tty": None, "yield_time_ms": None, "max_output_tokens": None, "shell": None, "login": None}
        assert (await bench.call("exec_command", {"cmd": "touch more", **nothing, **waiting})).success
        assert bench.asked == []
        assert {path.name for path in bench.root.iterdir()} == {"made", "more"}


async def test_a_picture_is_looked_at_whatever_detail_is_asked_for(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "a.png").write_bytes(PNG)
        assert (await bench.call("view_image", {"path": "a.png", "detail": "original"})).success
        assert code(await bench.call("view_image", {"path": "a.png", "environment_id": "x"})) == "invalid_params"


def test_an_escalation_is_read_once_for_all_forms() -> None:
    assert read_escalation({}) == EscalationRequest()
    fields = {"sandbox_permissions": "use_default", "with_escalated_permissions": True, "prefix_rule": ["git", "pull"]}
    assert read_escalation(fields) == EscalationRequest(escalated=True, rule=("git", "pull"))
    with pytest.raises(InvalidParamsError, match="require_escalated"):
        read_escalation({"additional_permissions": {"file_system": {"write": ["/"]}}})


async def test_a_shell_is_a_login_shell_only_when_that_is_asked_for(tmp_path: Path) -> None:
    """A15: a profile would bring what the environment policy keeps out."""
    async with workbench(tmp_path) as bench:
        fields = {"cmd": "shopt -q login_shell && echo login || echo plain", "shell": "/bin/bash"}
        assert (await bench.call("exec_command", fields)).text.endswith("plain\n")
        assert (await bench.call("exec_command", {**fields, "login": True})).text.endswith("login\n")
