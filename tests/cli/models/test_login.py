"""`tertulia login` and `logout`: a key that is typed or piped in, kept, used, and never shown."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.running import SOURCE, Ran, Shell
from tests.cli.stored_sessions import Screen, home
from tests.deadlines import HANG_S
from tests.models.apis import RESPONSES
from tests.models.mock_provider import MockProvider, Told, refused
from tests.policy.test_key_store import kept_keyring, needs_keyring
from tests.sandbox.confined import need
from tests.tables import each_row

KEY = "hunter2-canary-0123456789abcdef-9f8e"
MESSAGE = {"conversation_id": "root", "text": "hello"}


def login(shell: Shell, provider: str = "openai", key: str = KEY, **variables: str) -> Ran:
    return shell.spawn("login", provider, input=key.encode(), env=variables)


def configure(shell: Shell, text: str) -> None:
    config = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text)


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


# ---- keeping and forgetting


def test_a_piped_key_is_kept_where_only_the_user_reads_it(shell: Shell) -> None:
    ran = login(shell, key=f"{KEY}\n")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("The key for openai (…9f8e) is kept in ")
    assert KEY not in ran.out + ran.err
    file = home(shell) / "keys.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["keys"]["openai"]["key"] == KEY
    again = login(shell, key="another-key-0123456789")
    assert "in place of an earlier one" in again.out
    assert files_with(home(shell), KEY) == []


def test_a_typed_key_is_not_echoed(shell: Shell) -> None:
    screen = Screen(shell, "login", "openai")
    screen.until("Key for openai (it is not shown): ")
    screen.type(f"{KEY}\n")
    seen = screen.until("is kept in ")
    assert screen.close() == 0
    assert KEY not in seen
    assert files_with(home(shell), KEY) == ["keys.json"]


@each_row("words", [("login",), ("acp", "login")])
def test_a_terminal_is_asked_for_the_provider_too(shell: Shell, words: tuple[str, ...]) -> None:
    """Issue 25, 2: editors run one of the two in their terminal, as the program's ACP handshake says."""
    screen = Screen(shell, *words)
    screen.until("Of which provider? There are openai, ")
    screen.type("anthropic\n")
    screen.until("Key for anthropic (it is not shown): ")
    screen.type(f"{KEY}\n")
    seen = screen.until("is kept in ")
    assert screen.close() == 0
    assert KEY not in seen
    assert list(json.loads((home(shell) / "keys.json").read_text())["keys"]) == ["anthropic"]


@each_row("typed", ["\x03", "\x04"])
def test_who_stops_at_the_question_has_kept_nothing(shell: Shell, typed: str) -> None:
    screen = Screen(shell, "login", "openai")
    screen.until("Key for openai (it is not shown): ")
    screen.type(typed)
    if typed == "\x03":
        # Without a controlling terminal no signal comes of it, and it is a control character of a key.
        screen.type("\n")
    assert screen.close() in (2, 130)
    assert not home(shell).exists()


def test_the_data_directory_is_the_one_that_is_named(shell: Shell, tmp_path: Path) -> None:
    assert login(shell, TERTULIA_HOME=str(tmp_path / "mine")).code == 0
    assert files_with(tmp_path / "mine", KEY) == ["keys.json"]
    assert not home(shell).exists()
    ran = login(shell, TERTULIA_HOME="/dev/null/x")
    assert (ran.code, ran.out) == (2, "")
    assert "/dev/null/x (TERTULIA_HOME names it) cannot hold sessions: /dev/null is a file" in ran.err


@needs_keyring
def test_a_keyring_that_works_gets_the_key(shell: Shell, tmp_path: Path) -> None:
    variables = kept_keyring(tmp_path)
    variables["PYTHONPATH"] += os.pathsep + str(SOURCE)
    ran = login(shell, **variables)
    assert "is kept in the system's keyring." in ran.out
    assert files_with(home(shell), KEY) == []
    status = shell.spawn("login", "--status", env=variables)
    assert "…9f8e  `tertulia login`, kept in the system's keyring" in status.out
    ran = shell.spawn("logout", "openai", env=variables)
    assert ran.out == "The key for openai is removed from the system's keyring.\n"
    assert json.loads((tmp_path / "keyring.json").read_text()) == {}


def test_a_key_that_was_removed_is_gone(shell: Shell) -> None:
    login(shell)
    ran = shell.spawn("logout", "openai")
    assert ran.out == f"The key for openai is removed from {home(shell) / 'keys.json'}.\n"
    assert files_with(home(shell), KEY) == []
    ran = shell.spawn("logout", "openai")
    assert (ran.code, ran.err) == (
        1, "tertulia: no key for openai is kept; `tertulia login --status` shows which are\n",
    )  # fmt: skip


def test_the_key_of_a_provider_that_was_taken_out_of_the_settings_can_be_removed(shell: Shell) -> None:
    configure(shell, '[model_providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\nwire = "chat"\n')
    assert login(shell, "acme").code == 0
    configure_file = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
    configure_file.unlink()
    assert "no provider has this name now" in shell.run("login", "--status").out
    assert shell.run("logout", "acme").code == 0


# ---- refusals


@each_row(
    "key, problem",
    [
        ("", "the key is empty"),
        (" \n\t", "the key is empty"),
        ("https://api.openai.com/v1", "that is an address and no key"),
        ("OPENAI_API_KEY=sk-1", "that is a variable with its name"),
        ("export OPENAI_API_KEY=sk-1", "that is a variable with its name"),
        ("sk-one sk-two", "a key has no white space in it"),
        ("sk-one\nsk-two", "a key has no white space in it"),
        ("sk-\x1b[31mone", "a key has no control characters in it"),
        ("sk-\x00one", "a key has no control characters in it"),
        ("sk-ключ", "a key has ASCII characters only"),
        ('"sk-one"', "the key stands in quotation marks"),
        ("k" * 5000, "no key has more than 4,096 characters"),
        ("k" * 500_000, "no key has more than 4,096 characters"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, key: str, problem: str
) -> None:
    ran = login(shell, key=key)
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err
    assert ran.err.endswith("; nothing was kept\n")
    assert len(ran.err) < 200
    assert not home(shell).exists()


def test_what_is_no_text_is_refused(shell: Shell) -> None:
    ran = shell.spawn("login", "openai", input=b"\xff\xfe")
    assert (ran.code, ran.err) == (2, "tertulia: what was given is no key: it is not text\n")


def test_an_unknown_provider_is_answered_with_those_there_are(shell: Shell) -> None:
    configure(shell, '[model_providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\nwire = "chat"\n')
    for verb in ("login", "logout"):
        ran = shell.run(verb, "antropic")
        assert ran.code == 2
        assert "there is no provider 'antropic'; did you mean anthropic? There are openai, anthropic," in ran.err
        assert "acme; describe others under [model_providers.NAME]" in ran.err
    assert "of which provider? There are openai, " in shell.run("login").err


@each_row("words", [("openai", KEY), (f"sk-{KEY}",), ("openai", "--status", KEY), (KEY * 2,)])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(shell: Shell, words: tuple[str, ...]) -> None:
    for verb in ("login", "logout"):
        ran = shell.run(verb, *words)
        assert (ran.code, ran.out) == (2, "")
        assert KEY not in ran.err


def test_a_file_that_others_can_read_is_not_used(shell: Shell) -> None:
    login(shell)
    (home(shell) / "keys.json").chmod(0o644)
    for words in (("login", "--status"), ("exec", "hello"), ("logout", "openai")):
        ran = shell.run(*words)
        assert ran.code == 1
        assert "others can read it; `chmod 600 " in ran.err
    assert "others can read it" in shell.run("models", "ls").out
    # What needs no key is not disturbed.
    assert shell.run("exec", "-m", shell.script("Fine."), "hello").out == "Fine.\n"


# ---- what is shown


def test_the_status_says_where_each_key_comes_from(shell: Shell) -> None:
    login(shell)
    ran = shell.spawn("login", "--status", env={"ANTHROPIC_API_KEY": f"{KEY}-environment"})
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in ran.out.splitlines()}
    assert lines["openai"].startswith("…9f8e `tertulia login`, kept in ")
    assert lines["anthropic"] == "…ment the environment variable ANTHROPIC_API_KEY"
    assert lines["openrouter"] == "none set OPENROUTER_API_KEY, or `tertulia login openrouter`"
    assert lines["ollama"] == "none needs none"
    ran = shell.spawn("login", "--status", env={"OPENAI_API_KEY": "short"})
    assert "openai      set   the environment variable OPENAI_API_KEY; the stored one is not used" in ran.out


def test_models_and_doctor_say_where_the_key_comes_from(shell: Shell) -> None:
    login(shell)
    listed = shell.run("models", "ls").out
    assert "openai/gpt-5.2           no model is configured, OPENAI_API_KEY is not set, and `tertulia login`" in listed
    assert "key from `tertulia login` (a file)" in listed
    assert "key from `tertulia login` (a file)" in shell.run("doctor").out
    assert "OPENAI_API_KEY is not set" in shell.run("models", "ls", "-c", "stored_keys=false").out


def test_a_key_of_the_environment_is_pointed_out(shell: Shell) -> None:
    ran = login(shell, OPENAI_API_KEY="k")
    assert "OPENAI_API_KEY is set, and counts before this key" in ran.err
    ran = shell.spawn("logout", "openai", env={"OPENAI_API_KEY": "k"})
    assert "OPENAI_API_KEY is still set in the environment, and is used" in ran.err


# ---- what it is for


async def test_exec_uses_the_stored_key_and_writes_it_nowhere(shell: Shell) -> None:
    """Issue 19, 4: not in records, events, prompts, reports, or the environment of commands."""
    login(shell)
    answers = iter([Told(text="Hello."), Told(text=f"Your key is {KEY}.")])
    async with MockProvider(lambda _: RESPONSES.answer(next(answers))) as mock:
        variables = {"OPENAI_BASE_URL": mock.url}

        async def run(*words: str) -> Ran:
            return await asyncio.to_thread(shell.spawn, *words, env=variables)

        first = await run("exec", "hello")
        assert (first.code, first.out) == (0, "Hello.\n"), first.err
        assert mock.seen[0].headers["authorization"] == f"Bearer {KEY}"
        # Even a model that repeats it does not get it into the record.
        assert (await run("exec", f"my key is {KEY}")).code == 0
    for words in (("doctor",), ("prompt",), ("models", "ls"), ("sessions", "show", "--last"), ("login", "--status")):
        shown = await run(*words)
        assert KEY not in shown.out + shown.err, words
    assert files_with(home(shell), KEY) == ["keys.json"]


async def test_a_server_uses_the_stored_key(shell: Shell) -> None:
    login(shell)
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "conversation/message", "params": MESSAGE},
    ]
    async with MockProvider(RESPONSES.answer(Told(text="Hello."))) as mock:
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tertulia", "app-server"),
            cwd=shell.folder,
            env={**os.environ, "OPENAI_BASE_URL": mock.url},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        text = ""
        async with asyncio.timeout(HANG_S):
            while '"id":2' not in text:
                line = (await server.stdout.readline()).decode()
                assert line, text
                text += line
            server.stdin.close()
            await server.wait()
    assert mock.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in text
    assert files_with(home(shell), KEY) == ["keys.json"]


@needs_keyring
async def test_exec_uses_a_key_of_the_keyring_and_writes_it_nowhere(shell: Shell, tmp_path: Path) -> None:
    variables = kept_keyring(tmp_path)
    variables["PYTHONPATH"] += os.pathsep + str(SOURCE)
    login(shell, **variables)
    async with MockProvider(RESPONSES.answer(Told(text=f"Your key is {KEY}."))) as mock:
        variables["OPENAI_BASE_URL"] = mock.url
        ran = await asyncio.to_thread(shell.spawn, "exec", "hello", env=variables)
        assert ran.code == 0, ran.err
    assert mock.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert files_with(home(shell), KEY) == []
    (tmp_path / "keyring.json").write_text("{}")
    ran = await asyncio.to_thread(shell.spawn, "exec", "hello", env=variables)
    assert ran.code == 1
    assert "the key for openai was kept in the system's keyring, which does not give it now" in ran.err
    assert "which does not give it now" in shell.spawn("doctor", env=variables).out


def test_commands_neither_get_a_stored_key_nor_read_it(shell: Shell) -> None:
    need("bubblewrap")
    login(shell)
    everything = ("-c", 'shell_environment.inherit="all"', "-c", "shell_environment.ignore_default_excludes=true")
    file = home(shell) / "keys.json"
    ran = shell.spawn(
        "sandbox", *everything, "--", "sh", "-c", f"env; cat {file}; ls {file.parent}", env={"SHOWN": "yes"}
    )
    assert "SHOWN=yes" in ran.out
    assert KEY not in ran.out + ran.err
    assert "keys.json" not in ran.out


async def test_a_refused_key_is_named_by_its_place(shell: Shell) -> None:
    login(shell)
    async with MockProvider(refused("401 Unauthorized", {"error": {"message": f"wrong key {KEY}"}})) as mock:
        ran = await asyncio.to_thread(shell.spawn, "exec", "hello", env={"OPENAI_BASE_URL": mock.url})
    assert ran.code == 1
    assert "It was taken from `tertulia login` (a file)" in ran.err
    assert KEY not in ran.out + ran.err


async def test_python_uses_it_where_settings_are_loaded_and_nowhere_else(shell: Shell) -> None:
    login(shell)
    program = "import asyncio, sys, tertulia\nsettings = eval(sys.argv[1])\nprint(tertulia.run('hello', settings).text)"
    async with MockProvider(RESPONSES.answer(Told(text="Hello."))) as mock:

        async def run(settings: str) -> tuple[int, str]:
            ran = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program, settings),
                env={**os.environ, "OPENAI_BASE_URL": mock.url},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            out, _ = await ran.communicate()
            return ran.returncode or 0, out.decode()

        assert await run("tertulia.Settings.load()") == (0, "Hello.\n")
        code, out = await run("tertulia.Settings()")
    assert code != 0
    assert "NoModelError" in out
    assert len(mock.seen) == 1
