"""The program: its verbs, its exit codes, and how it speaks when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from tertulia.cli.main import VERBS, explain_error, main
from tertulia.errors import ClosedError, InternalError, InvalidParamsError, ModelError, TertuliaError, ToolConflictError
from tertulia.version import __version__
from tests.cli.running import DEADLINE_S, SOURCE, Shell

BANNED = {"acp", "aiohttp", "mcp", "rich", "starlette", "textual", "uvicorn", "websockets", "yaml"}


def test_without_a_verb_it_shows_its_help_and_says_that_there_is_no_terminal_ui_yet(shell: Shell) -> None:
    ran = shell.run()
    assert ran.code == 0
    assert "Commands:" in ran.out


@pytest.mark.parametrize("arguments", [["--help"], *([verb, "--help"] for verb in VERBS)])
def test_every_help_has_examples_and_tells_the_global_flags(shell: Shell, arguments: list[str]) -> None:
    ran = shell.run(*arguments)
    assert ran.code == 0
    assert "Examples:\n" in ran.out
    for flag in ("--model", "--cd", "--config KEY=VALUE", "--sandbox", "--ask-for-approval", "--storage", "--add-dir"):
        assert flag in ran.out


def test_the_help_lists_exactly_the_verbs_that_there_are(shell: Shell) -> None:
    section = shell.run("--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in section.splitlines()] == list(VERBS)


def test_the_version(shell: Shell) -> None:
    assert shell.run("--version").out == f"tertulia {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["dance"], "tertulia: No such command 'dance'"),
        (["exec", "--colour", "x"], "tertulia exec: No such option"),
        (["exec", "-C", "nowhere", "x"], "does not exist"),
        (["exec", "-s", "loose", "x"], "'-s' / '--sandbox': must be read-only, workspace-write or"),
        (["exec", "-a", "often", "x"], "'-a' / '--ask-for-approval'"),
        (["exec", "--storage", "ttl:soon", "x"], "'--storage'"),
        (["exec", "-c", "sandbx=read-only", "x"], "did you mean sandbox?"),
        (["exec", "-m", "nobody/knows", "x"], "nobody/knows"),
        (["exec", "-m", "scripted/gone.json", "x"], "gone.json: it cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence_on_standard_error_and_exit_code_2(
    shell: Shell, arguments: list[str], expected: str
) -> None:
    ran = shell.run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert expected in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_configuration_that_cannot_be_read_names_the_file(shell: Shell) -> None:
    config = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("sandbox = [")
    ran = shell.run("doctor")
    assert ran.code == 2
    assert str(config) in ran.err
    assert len(ran.err.splitlines()) == 1


def test_an_interrupt_outside_of_a_task_is_exit_code_130(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tertulia.session.settings.settings.load_settings", interrupted)
    assert shell.run("doctor").code == 130


TOUR = ("-m", "scripted/tour")


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_quietly(shell: Shell) -> None:
    for arguments in (["--help"], ["doctor"], ["exec", *TOUR, "hello"], ["exec", *TOUR, "--json", "hello"], ["demo"]):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            ran = shell.spawn(*arguments, stdout=writing)
        finally:
            os.close(writing)
        assert ran.code == 1, arguments
        assert "Traceback" not in ran.err
        assert "BrokenPipe" not in ran.err
        assert "Exception ignored" not in ran.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_sentence(shell: Shell) -> None:
    with open("/dev/full", "wb") as full:
        ran = shell.spawn("--help", stdout=full)
    assert ran.code == 1
    assert ran.err.splitlines() == ["tertulia: No space left on device"]


def test_streams_that_are_closed_from_the_start_do_no_harm(shell: Shell) -> None:
    command = f'"{sys.executable}" -m tertulia exec -m {shell.script("fine", "fine")} hello'
    for closed, answer in (("<&- >&-", b""), ("2>&-", b"fine\n")):
        ran = subprocess.run(
            ["/bin/sh", "-c", f"{command} {closed}"],
            cwd=shell.folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == answer


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "--help"], ["exec", "--json", "hello"]])
def test_starting_it_imports_no_web_terminal_mcp_or_yaml_package(shell: Shell, arguments: list[str]) -> None:
    """Start-up of `--help` and `exec` imports no MCP, ACP, TUI or web package."""
    if "hello" in arguments:
        arguments = [*arguments, "-m", shell.script("fine")]
    program = (
        "import sys; from tertulia.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    loaded = set(ran.stderr.decode().splitlines()[-1].split())
    assert "tertulia" in loaded
    assert not loaded & BANNED


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_the_help_and_the_version_import_no_verb_and_no_session(shell: Shell, flag: str) -> None:
    program = f"import sys; from tertulia.cli.main import main; main(['{flag}']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    loaded = set(ran.stderr.decode().split())
    own = {name for name in loaded if name.startswith("tertulia.cli.")}
    assert own == {"tertulia.cli.main", "tertulia.cli.global_flags", "tertulia.cli.stop_signals"}
    assert not {name for name in loaded if name.startswith("tertulia.session")}


def test_the_program_prints_its_version_without_the_command_line() -> None:
    """And `import tertulia` loads next to nothing: no `typing`, no errors, no name of ours before it is used."""
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); sys.argv = ['tertulia', '--version']\n"
        "from tertulia.__main__ import main; assert main() == 0; print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert ran.stdout.decode() == f"tertulia {__version__}\n"
    loaded = set(ran.stderr.decode().split())
    assert {name for name in loaded if name.startswith("tertulia.")} == {"tertulia.__main__", "tertulia.version"}
    assert not loaded & {"typing", "re", "click", "asyncio"}


def test_a_version_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "tertulia", "--version"],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (1, b"tertulia: No space left on device\n")


def test_it_can_be_run_as_a_module(shell: Shell) -> None:
    ran = shell.spawn("exec", "-m", shell.script("fine"), "hello")
    assert (ran.code, ran.out) == (0, "fine\n")


def test_main_reads_the_command_line_of_the_process(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tertulia", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"tertulia {__version__}\n"


def test_what_is_logged_where_nobody_set_up_a_log_shows_no_secret(shell: Shell) -> None:
    """S001-45, E6: it goes to standard error."""
    program = (
        "import logging; from tertulia.cli.main import main; from tertulia.policy.redaction import Redactor;"
        "main(['--version']); main(['--version']); token = '0123456789abcdef' * 4; Redactor().register_token(token);"
        "logging.getLogger('x').error('said %s', token)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert ran.stderr.decode() == "said 01234567[redacted:token]\n"


@pytest.mark.parametrize("error", [InvalidParamsError("sandbox is wrong"), ToolConflictError("two tools")])
def test_what_the_user_can_mend_is_exit_code_2(error: TertuliaError) -> None:
    assert explain_error(error) == (f"tertulia: {error.message}", 2)


@pytest.mark.parametrize("error", [ClosedError("gone"), InternalError("ours"), ModelError("no answer")])
def test_what_went_wrong_is_exit_code_1(error: TertuliaError) -> None:
    assert explain_error(error) == (f"tertulia: {error.message}", 1)


def test_a_wrong_command_line_points_to_the_help_of_its_verb() -> None:
    context = click.Context(
        click.Command("exec"), info_name="exec", parent=click.Context(click.Command("t"), info_name="t")
    )
    sentence, code = explain_error(click.UsageError("there is no PROMPT", context))
    assert sentence == "t exec: there is no PROMPT. See `t exec --help`."
    assert code == 2


def test_a_question_keeps_its_mark() -> None:
    assert explain_error(click.UsageError("Did you mean -m?"))[0] == "tertulia: Did you mean -m? See `tertulia --help`."


def test_other_errors_of_the_command_line_are_mistakes_too() -> None:
    assert explain_error(click.ClickException("no")) == ("tertulia: no. See `tertulia --help`.", 2)
