"""`tertulia completion`: what Tab gives in bash, zsh and fish, each of them real."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.completion import table
from tests.cli.running import DEADLINE_S, SOURCE, Shell
from tests.cli.stored_sessions import home, run_session
from tests.tables import each_row

CONFIG = 'model = "acme/large"\n[model_providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\nwire = "chat"\n'
SANDBOX = ["read-only", "workspace-write", "danger-full-access"]

LINES: list[tuple[str, list[str]]] = [
    ("tertulia sess", ["sessions"]),
    ("tertulia se", ["sessions", "serve"]),
    ("tertulia compl", ["completion"]),
    ("tertulia sessions s", ["show", "sweep"]),
    ("tertulia -m acme/large sessions s", ["show", "sweep"]),
    ("tertulia mcp tr", ["trust"]),
    ("tertulia exec --output-", ["--output-last-message", "--output-schema"]),
    ("tertulia sessions rm --y", ["--yes"]),
    ("tertulia --vers", ["--version"]),
    ("tertulia exec --vers", []),
    ("tertulia -s ", SANDBOX),
    ("tertulia exec -s w", ["workspace-write"]),
    ("tertulia exec --storage h", ["headers-only"]),
    ("tertulia -a on-", ["on-request", "on-failure"]),
    ("tertulia completion ", ["bash", "zsh", "fish"]),
    ("tertulia models pull s", ["smollm2"]),
    ("tertulia models test acme/l", ["acme/large"]),
    ("tertulia -m local", ["local", "local/smollm2"]),
    ("tertulia login a", ["anthropic", "acme"]),
    ("tertulia logout op", ["openai", "openrouter"]),
    ("tertulia conv history r", ["root"]),
    ("tertulia exec -m acme/large ", ["resume"]),
    ("tertulia nosuch ", []),
    ("tertulia exec hello --js", ["--json"]),
    ("tertulia exec -- --js", []),
    ("tertulia schema ", []),
]
"""What is typed, and what it can become."""


@pytest.fixture
def configured(shell: Shell) -> Shell:
    file = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    (shell.folder / "picture.png").touch()
    (shell.folder / "source").mkdir()
    return shell


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def environment() -> dict[str, str]:
    """Without a name of ours on PATH: the scripts know where the program is."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "dumb"}


def script(shell: Shell, name: str) -> Path:
    ran = shell.spawn("completion", name)
    assert (ran.code, ran.err) == (0, "")
    file = shell.folder.parent / f"completion.{name}"
    file.write_text(ran.out)
    return file


def ask(shell: Shell, command: list[str]) -> str:
    ran = subprocess.run(
        command, cwd=shell.folder, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert ran.stderr == ""
    return ran.stdout


# ---- the table


def test_the_table_is_that_of_the_verbs_of_now() -> None:
    """Renew it with `python -m tests.cli.completion.table`."""
    assert table.FILE.read_bytes() == table.as_json(table.make_table())


# ---- bash

COMPLETING = """
source "$1"; shift
while (($#)); do
    IFS=$'\\x1f' read -ra COMP_WORDS <<< "$1"
    [[ $1 == *$'\\x1f' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _tertulia
    printf '%s|' "${COMPREPLY[@]}"; echo; shift
done
"""


def complete_in_bash(shell: Shell, *lines: list[str]) -> list[list[str]]:
    """What bash would offer for command lines that it has split into these words."""
    words = ["\x1f".join(line) for line in lines]
    out = ask(shell, [need("bash"), "-c", COMPLETING, "bash", str(script(shell, "bash")), *words])
    return [[value for value in line.split("|") if value] for line in out.splitlines()]


def test_bash_completes_every_kind_of_word(configured: Shell) -> None:
    offered = complete_in_bash(configured, *(line.split(" ") for line, _ in LINES))
    assert list(zip([line for line, _ in LINES], offered, strict=True)) == LINES


def test_bash_completes_what_it_has_split(configured: Shell) -> None:
    """At `=` and `:`, where only what stands behind them is replaced."""
    offered = complete_in_bash(
        configured,
        ["tertulia", "exec", "--sandbox", "=", "w"],
        ["tertulia", "exec", "--sandbox", "="],
        ["tertulia", "-c", "sandbox", "=", "w"],
        ["tertulia", "-c", "model_providers.acme.wire", "="],
        ["tertulia", "-c", "sandbox_t"],
        ["tertulia", "exec", "--storage", "=", "t"],
        ["tertulia", "-m", "local/smollm2", ":", ""],
    )
    assert offered == [
        ["workspace-write"], SANDBOX, ["workspace-write"], ["responses", "chat", "messages"], ["sandbox_tier="],
        ["ttl:"], [],
    ]  # fmt: skip


def test_bash_completes_files_and_directories_where_they_are_wanted(configured: Shell) -> None:
    offered = complete_in_bash(
        configured,
        ["tertulia", "exec", "-i", "pic"],
        ["tertulia", "exec", "--image", "=", "pic"],
        ["tertulia", "-C", ""],
        ["tertulia", "sandbox", "--", "pic"],
    )
    assert offered == [["picture.png"], ["picture.png"], ["source"], ["picture.png"]]


def test_sessions_are_completed_the_newest_first(configured: Shell) -> None:
    older, newer = run_session(configured), run_session(configured)
    os.utime(home(configured) / "sessions" / f"{older}.db", (1, 1))
    lines = (
        ["sessions", "show"],
        ["resume"],
        ["exec", "resume"],
        ["sessions", "rm", older],
        ["conv", "ls", "--session"],
    )
    offered = complete_in_bash(configured, *(["tertulia", *line, ""] for line in lines))
    assert offered == [[newer, older]] * len(lines)
    assert complete_in_bash(configured, ["tertulia", "resume", newer[:6]]) == [[newer]]


class Typed:
    """A shell at a terminal."""

    def __init__(self, shell: Shell, *command: str) -> None:
        self._primary, secondary = pty.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), secondary)
        self._process = subprocess.Popen(
            command, cwd=shell.folder, env={**environment(), "PS1": "> "}, start_new_session=True, **streams
        )
        os.close(secondary)
        self._seen = ""

    def type(self, text: str, *expected: str) -> None:
        """Type it, and wait until all of this was shown since."""
        self._seen = ""
        os.write(self._primary, text.encode())
        while not all(part in self._seen for part in expected):
            ready, _, _ = select.select([self._primary], [], [], DEADLINE_S)
            assert ready, f"{expected} did not come:\n{self._seen}"
            self._seen += os.read(self._primary, 65_536).decode(errors="replace")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._primary)


def test_a_bash_at_a_terminal_completes_what_is_typed(configured: Shell) -> None:
    at = Typed(configured, need("bash"), "--norc", "--noprofile", "-i")
    at.type(f"source {script(configured, 'bash')}; echo re''ady\n", "ready")
    at.type("tertulia sess\t", "tertulia sessions ")
    at.type("sho\t", "show ")
    at.type("\x15tertulia exec --sandbox=w\t", "--sandbox=workspace-write")
    at.type("\x15tertulia -m lmst\tx", "lmstudio/x")
    at.close()


# ---- zsh


def test_a_zsh_at_a_terminal_completes_what_is_typed(configured: Shell) -> None:
    session_id = run_session(configured)
    at = Typed(configured, need("zsh"), "-f", "-i")
    at.type(f"autoload -Uz compinit; compinit -u -D; source {script(configured, 'zsh')}; echo re''ady\n", "ready")
    at.type("tertulia sess\t", "tertulia sessions ")
    at.type("\x15tertulia sessions sh\t", "show ")
    at.type("\x15tertulia se\t", "sessions", "Serve sessions over WebSocket")
    at.type("\x15tertulia resume \t", session_id)
    at.type("\x15tertulia exec --sandbox=w\t", "--sandbox=workspace-write")
    at.type("\x15tertulia -m lmst\tx", "lmstudio/x")
    at.type("\x15tertulia exec -i pic\t", "picture.png")
    at.close()


def test_zsh_loads_it_from_its_path(configured: Shell) -> None:
    folder = configured.folder.parent / "functions"
    folder.mkdir()
    (folder / "_tertulia").write_text(script(configured, "zsh").read_text())
    at = Typed(configured, need("zsh"), "-f", "-i")
    at.type(f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; echo re''ady\n", "ready")
    at.type("tertulia sess\t", "tertulia sessions ")
    at.type("\x15tertulia sessions sh\t", "show ")
    at.close()


# ---- fish


def test_fish_completes_every_kind_of_word(configured: Shell) -> None:
    program = "source $argv[1]; for line in $argv[2..-1]; complete -C $line; echo -----; end"
    lines = [line for line, _ in LINES]
    out = ask(configured, [need("fish"), "--no-config", "-c", program, str(script(configured, "fish")), *lines])
    offered = [[line.split("\t")[0] for line in part.splitlines()] for part in out.split("-----\n")[:-1]]
    assert list(zip(lines, offered, strict=True)) == LINES


def test_fish_shows_what_things_are(configured: Shell) -> None:
    session_id = run_session(configured)
    program = "source $argv[1]; for line in $argv[2..-1]; complete -C $line; end"
    lines = ["tertulia resume ", "tertulia doct", "tertulia exec --sandbox=w", "tertulia exec -i pic"]
    out = ask(configured, [need("fish"), "--no-config", "-c", program, str(script(configured, "fish")), *lines])
    shown = out.splitlines()
    assert shown[0].startswith(f"{session_id}\tlast used ")
    assert shown[1].startswith("doctor\tShow where each setting comes from")
    assert [line.split("\t")[0] for line in shown[2:]] == ["--sandbox=workspace-write", "picture.png"]


# ---- the verb that shells ask


def test_it_is_hidden(shell: Shell) -> None:
    assert "  complete " not in shell.run("--help").out
    assert "  completion " in shell.run("--help").out


@each_row(
    "words", [(), ("tertulia",), ("tertulia", "exec", "--nosuch="), ("", "x", ""), ("tertulia", "-c", "\x1b[31m")]
)
def test_what_cannot_be_completed_is_quietly_nothing(shell: Shell, words: tuple[str, ...]) -> None:
    for name in ("bash", "zsh", "fish"):
        ran = shell.run("complete", name, "--", *words)
        assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_only_values_are_offered_of_which_no_shell_makes_anything_else(shell: Shell) -> None:
    file = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "x/$(touch here)"\n[model_providers."a; b"]\n[model_providers.plain]\n')
    ran = shell.run("complete", "bash", "--", "tertulia", "-m", "")
    assert "plain/" in ran.out.splitlines()
    assert not {"$", ";", " "} & set(ran.out)


def test_what_is_typed_may_be_no_text(shell: Shell) -> None:
    word = os.fsdecode(b"model_providers.\xff.wire=ch")
    with shell.start("complete", "fish", "--", "tertulia", "-c", word) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out, err) == (0, b"model_providers.\xff.wire=chat\t\n", b"")


def test_it_creates_nothing_and_does_not_complain(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 15."""
    wanted = [("resume", ""), ("-m", "op"), ("login", "op")]

    def offered() -> list[str]:
        ran = [shell.spawn("complete", "bash", "--", "tertulia", *words) for words in wanted]
        assert {(one.code, one.err) for one in ran} == {(0, "")}
        return [one.out for one in ran]

    before = sorted(shell.folder.parent.rglob("*"))
    assert offered()[2] == "openai\nopenrouter\n"
    assert sorted(shell.folder.parent.rglob("*")) == before
    file = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("this is no TOML")
    assert offered()[1:] == ["", ""]
    monkeypatch.setenv("TERTULIA_HOME", str(file))
    assert offered()[0] == ""


def test_verbs_and_options_are_completed_without_loading_what_they_need(shell: Shell) -> None:
    program = "import sys\nfrom tertulia.cli.main import main\nmain(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", program, "complete", "bash", "--", "tertulia", "sessions", "show", "--js"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert ran.stdout == "--json\n"
    ours = {name for name in ran.stderr.split() if name.startswith("tertulia.")}
    assert not {name for name in ours if name.startswith(("tertulia.session", "tertulia.rollout", "tertulia.models"))}
    assert "asyncio" not in ran.stderr.split()


def test_help_says_how_to_install_it(shell: Shell) -> None:
    out = shell.run("completion", "--help").out
    for line in ("tertulia completion bash > ", "tertulia completion zsh > ", "tertulia completion fish > "):
        assert line in out
    ran = shell.run("completion", "tcsh")
    assert ran.code == 2
    assert "bash" in ran.err
