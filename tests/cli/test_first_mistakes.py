"""What a person meets who makes a mistake in the first hour: what was wrong, what there is, what to do.

Issue 19, "Errors": each through the real program, in a process of its own.
"""

from __future__ import annotations

import json
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.running import Ran, Shell
from tests.tables import each_row

pytestmark = pytest.mark.slow

KEY = "sk-proj-abcdefghijklmnop1234567890"
PROVIDER = '[model_providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\nwire = "chat"\n'


class Beginner:
    """A person with a config.toml and a scripted model at hand."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.model = shell.script("Hi.", repeat=True)
        self.config = shell.folder.parent / "home" / ".config" / "tertulia" / "config.toml"
        self.config.parent.mkdir(parents=True)

    def types(self, *arguments: str, config: str = "", input: bytes = b"", **env: str) -> Ran:
        """A command line, with that file; never is there a traceback or a class of Python's."""
        self.config.write_text(config)
        ran = self.shell.spawn(*arguments, input=input, env=env)
        assert "Traceback" not in ran.err
        assert "Errno" not in ran.err
        return ran

    def asks(self, config: str = "", *arguments: str, **env: str) -> Ran:
        """`exec`, with that file."""
        return self.types("exec", *(arguments or ("-m", self.model)), "Hello", config=config, **env)


@pytest.fixture
def beginner(shell: Shell) -> Beginner:
    return Beginner(shell)


def refused(ran: Ran, *arguments: str) -> None:
    """Refused before anything began, in words."""
    assert (ran.code, ran.out) == (2, ""), ran.err
    for words in arguments:
        assert words in ran.err, ran.err


# ---- names


def test_sandbox_mode_is_sandbox(beginner: Beginner) -> None:
    refused(beginner.asks('sandbox_mode = "read-only"\n'), "there is no setting 'sandbox_mode'; did you mean sandbox?")


def test_wire_api_is_wire(beginner: Beginner) -> None:
    """As Codex spells it."""
    assert beginner.asks(PROVIDER.replace("wire", "wire_api")).code == 0
    ran = beginner.asks(PROVIDER.replace('wire = "chat"', 'wire_api = "completions"'))
    refused(ran, "model_providers.mine")


def test_a_wrong_wire_lists_those_that_there_are(beginner: Beginner) -> None:
    ran = beginner.asks(PROVIDER.replace('"chat"', '"completions"'))
    refused(ran, "model_providers.mine: wire: expected one of chat, messages, responses")


def test_a_model_without_a_provider_gets_the_one_that_makes_it(beginner: Beginner) -> None:
    refused(beginner.asks("", "-m", "gpt-5.2"), "did you mean openai/gpt-5.2?")
    refused(beginner.asks("", "-m", "claude-sonnet-4-5"), "did you mean anthropic/claude-sonnet-4-5?")


def test_the_only_provider_of_ones_own_is_meant(beginner: Beginner) -> None:
    refused(beginner.asks(PROVIDER, "-m", "qwen3"), "did you mean mine/qwen3?")


def test_yolo_names_the_two_flags(beginner: Beginner) -> None:
    refused(beginner.types("exec", "--yolo", "Hello"), "'--yolo'; did you mean `-s danger-full-access -a never`?")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["execc", "Hello"], "'execc'; did you mean exec?"),
        (["chat"], "did you mean `tertulia` alone?"),
        (["What is this?"], "a PROMPT goes with `tertulia exec`"),
        (["mcp", "list"], "did you mean ls?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_verb_that_does_not_exist_names_the_one_that_does(
    beginner: Beginner, arguments: list[str], expected: str
) -> None:
    refused(beginner.types(*arguments), expected)


@pytest.mark.parametrize(
    ("flag", "word", "expected"),
    [
        ("--storage", "headers", "must be full, headers-only, none or ttl:SECONDS, not 'headers'"),
        ("-s", "full-access", "not 'full-access'; did you mean danger-full-access?"),
        ("-a", "bypassPermissions", "on-failure or never, not 'bypassPermissions'; did you mean never?"),
    ],
)
def test_a_flag_speaks_in_its_own_words(beginner: Beginner, flag: str, word: str, expected: str) -> None:
    ran = beginner.types("exec", flag, word, "Hello")
    refused(ran, expected)
    assert "headers_only" not in ran.err
    assert "{" not in ran.err


def test_a_word_that_is_no_session_is_not_called_too_short(beginner: Beginner) -> None:
    ran = beginner.types("resume", "nope")
    refused(ran, "'nope' is no session: an ID has only digits, a to f and `-`; `tertulia sessions ls` shows")
    refused(beginner.types("resume", "abc"), "'abc' is too short", "at least 4 characters")


# ---- places


def test_a_port_in_use_names_the_flag(beginner: Beginner) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = beginner.types("serve", "--port", str(port), "-m", beginner.model)
    refused(ran, f"port {port} of 127.0.0.1 is in use", "`--port 0` takes any that is free")


def test_a_home_that_is_a_file_is_named(beginner: Beginner) -> None:
    place = beginner.shell.folder / "notes.txt"
    place.write_text("mine")
    for arguments in (("exec", "-m", beginner.model, "Hello"), ("sessions", "ls")):
        ran = beginner.types(*arguments, TERTULIA_HOME=str(place))
        refused(ran, f"{place} is a file", "set TERTULIA_HOME to a directory")
    refused(beginner.types("sessions", "ls", TERTULIA_HOME=str(place / "below")), f"{place} is a file")


def test_connection_refused_asks_whether_it_runs(beginner: Beginner) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = beginner.asks(PROVIDER.replace(":9/", f":{port}/"), "-m", "mine/any")
    assert ran.code == 1
    assert f"cannot connect to mine at 127.0.0.1:{port}: connection refused; is it running?" in ran.err
    assert "('127.0.0.1'" not in ran.err
    ran = beginner.types("mcp", "test", "far", config=f'[mcp_servers.far]\nurl = "http://127.0.0.1:{port}/mcp"\n')
    assert "connection refused; is it running?" in ran.out


def test_https_against_a_server_of_http_says_so(beginner: Beginner) -> None:
    """The server is ours, `tertulia serve`, which speaks plain HTTP."""
    beginner.config.write_text("")
    with beginner.shell.start("serve", "--port", "0", "-m", beginner.model) as server:
        try:
            assert server.stdout
            port = json.loads(server.stdout.readline())["url"].rpartition(":")[2]
            address = f"https://127.0.0.1:{port}/v1"
            ran = beginner.asks(PROVIDER.replace("http://127.0.0.1:9/v1", address), "-m", "mine/any")
            assert (ran.code, ran.out) == (1, "")
            assert "it does not speak TLS; does its address begin with http:// and not https://?" in ran.err
            ran = beginner.types("mcp", "test", "far", config=f'[mcp_servers.far]\nurl = "{address}"\n')
            assert "it does not speak TLS; does its address begin with http://" in ran.out
        finally:
            server.terminate()


def test_a_prompt_that_is_too_long_is_told_its_real_size(beginner: Beginner) -> None:
    ran = beginner.types("exec", "-m", beginner.model, "-", input=b"a" * 17_000_000)
    refused(ran, "standard input has 17,000,000 bytes, and a message at most 16,777,216")
    assert "--no-stdin" not in ran.err


# ---- MCP servers and keys


def test_arguments_in_command_belong_into_args(beginner: Beginner) -> None:
    config = '[mcp_servers.files]\ncommand = "no-such-program -y files"\n'
    ran = beginner.types("mcp", "test", "files", config=config)
    assert ran.code == 1
    assert 'put the arguments into args: command = "no-such-program", args = […]' in ran.out
    agent = '[executors.mine]\ncommand = ["no-such-agent --fast"]\nsandbox = {workspace-write = []}\n'
    ran = beginner.types("exec", "--backend", "command:mine", "Hello", config=agent)
    assert 'put the arguments into args: command = "no-such-agent", args = […]' in ran.err
    ran = beginner.types("mcp", "add", "files", "npx -y files")
    refused(ran, "write the program and its arguments apart", "files -- npx")


def test_a_server_that_failed_is_told_once_and_in_english(beginner: Beginner) -> None:
    config = f'[mcp_servers.broken]\ncommand = {json.dumps(sys.executable)}\nargs = ["-c", "raise SystemExit(3)"]\n'
    text = "MCP server broken failed: it exited with code 3"
    ran = beginner.asks(config)
    assert (ran.code, ran.out) == (0, "Hi.\n")
    # The answer may come before the server ends.
    assert ran.err.count(text) <= 1
    assert "is failed" not in ran.err
    assert beginner.types("mcp", "tools", config=config).err == f"tertulia: {text}\n"


def test_a_key_in_the_place_of_a_variables_name_is_not_echoed(beginner: Beginner) -> None:
    ran = beginner.asks(f'{PROVIDER}env_key = "{KEY}"\n', "-m", "mine/any")
    refused(
        ran, "model_providers.mine.env_key must be the name of an environment variable", "looks like the key itself"
    )
    assert KEY not in ran.err
    server = f'[mcp_servers.far]\nurl = "http://127.0.0.1:9/"\nbearer_token_env_var = "{KEY}"\n'
    ran = beginner.types("mcp", "ls", config=server)
    refused(ran, "mcp_servers.far.bearer_token_env_var must be the name of an environment variable")
    assert KEY not in ran.err


def test_mcp_server_without_its_extra_names_itself(beginner: Beginner, tmp_path: Path) -> None:
    """A package `mcp` that is not there: an import hook before the program hides it."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mcp' or name.startswith('mcp.'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    source = str(Path(__file__).parent.parent.parent / "src")
    ran = beginner.types("mcp-server", "-m", beginner.model, PYTHONPATH=f"{hidden}:{source}")
    assert (ran.code, ran.out) == (1, "")
    assert "`tertulia mcp-server` needs the `mcp` extra: pip install 'tertulia[mcp]'" in ran.err


# ---- over the wire


def over_the_wire(beginner: Beginner, method: str, params: dict[str, object]) -> str:
    lines = [("initialize", {}), (method, params)]
    sent = [{"jsonrpc": "2.0", "id": i, "method": name, "params": line} for i, (name, line) in enumerate(lines)]
    ran = beginner.types(
        "app-server", "-m", beginner.model, input=b"".join(json.dumps(line).encode() + b"\n" for line in sent)
    )
    return next(line["error"]["message"] for line in ran.lines if line.get("id") == 1)


def test_a_decision_that_does_not_exist_lists_allow_and_deny(beginner: Beginner) -> None:
    refusal = over_the_wire(beginner, "approval/resolve", {"approval_id": "a", "decision": "approved"})
    assert refusal == "decision: expected one of allow, cancel, deny"


def test_an_unknown_field_of_open_suggests_the_near_one(beginner: Beginner) -> None:
    refusal = over_the_wire(beginner, "conversation/open", {"system_prompt": "You review."})
    assert refusal == "there is an unknown field `system_prompt`; did you mean base_instructions?"
    refusal = over_the_wire(beginner, "conversation/open", {"titel": "x"})
    assert refusal == "there is an unknown field `titel`; did you mean title?"


# ---- settings of Codex


CODEX = {
    "sandbox_mode": "sandbox",
    "sandbox_workspace_write": "network",
    "model_reasoning_effort": "reasoning_effort",
    "project_doc_max_bytes": "project_instructions",
    "profiles": "-c KEY=VALUE",
    "history": "storage_policy",
    "shell_environment_policy": "shell_environment",
    "web_search": "tools_web_search_request",
    "file_opener": "leave it out",
    "developer_instructions": "AGENTS.md",
    "openai_base_url": "OPENAI_BASE_URL",
}


def test_all_settings_of_codex_are_answered_at_once_with_ours(beginner: Beginner) -> None:
    ran = beginner.asks("".join(f'{name} = "x"\n' for name in CODEX))
    refused(ran)
    lines = ran.err.splitlines()
    assert len(lines) == len(CODEX)
    for (name, ours), line in zip(CODEX.items(), lines, strict=True):
        assert f"there is no setting '{name}'; " in line
        assert ours in line.partition("; ")[2], line


def test_an_mcp_server_and_a_provider_as_codex_has_them_are_understood(beginner: Beginner) -> None:
    """What has another name here is answered; the rest is read as it is."""
    same = (
        '[mcp_servers.here]\ncommand = "true"\nargs = []\nenabled = false\nrequired = false\nstartup_timeout_sec = 5\n'
        'tool_timeout_sec = 5\nenabled_tools = ["a"]\ndisabled_tools = ["b"]\nenv_vars = ["HOME"]\n'
        'supports_parallel_tool_calls = true\ndefault_tools_approval_mode = "auto"\n'
        '[mcp_servers.there]\nurl = "http://127.0.0.1:9/"\nstartup_timeout_ms = 5\nenabled = false\n'
        'bearer_token_env_var = "TOKEN"\nhttp_headers = {a = "b"}\nenv_http_headers = {c = "D"}\n'
        f'{PROVIDER}request_max_retries = 1\nstream_max_retries = 1\nstream_idle_timeout_ms = 1\nenv_key = "KEY"\n'
    )
    top = 'approval_policy = "never"\nnotify = ["true"]\n'
    assert beginner.asks(top + same).code == 0
    assert beginner.asks(f'{PROVIDER}name = "Mine"\n').code == 0
    named = f"{PROVIDER}requires_openai_auth = true\n"
    refused(beginner.asks(named), "`requires_openai_auth`; Tertulia uses keys and no ChatGPT account; write env_key")


# ---- more mistakes


def test_a_text_without_quotes_is_told_about_quotes(beginner: Beginner) -> None:
    ran = beginner.asks("\nmodel = openai/gpt-5.2\n")
    refused(ran, f"{beginner.config}: not TOML at line 2, column 9: a value that there is not; a text stands in quotes")


def test_a_file_that_is_not_utf_8_is_told_its_line(beginner: Beginner) -> None:
    beginner.config.write_bytes(b'sandbox = "read-only"\n# caf\xe9\n')
    refused(beginner.shell.spawn("exec", "Hello"), f"{beginner.config}: expected UTF-8 (at line 2)")


def test_a_directory_in_the_place_of_the_file_is_named(beginner: Beginner) -> None:
    beginner.config.mkdir()
    refused(beginner.shell.spawn("exec", "Hello"), f"{beginner.config}: expected a file, and this is a directory")


def test_an_address_in_a_variable_is_blamed_on_the_variable(beginner: Beginner) -> None:
    ran = beginner.types("exec", "Hello", OPENAI_API_KEY="sk-x", OPENAI_BASE_URL="localhost:8000")
    refused(ran, "the environment variable OPENAI_BASE_URL must begin with http:// or https://")


def test_spaces_around_the_equals_sign_are_nothing(beginner: Beginner) -> None:
    assert beginner.types("exec", "-m", beginner.model, "-c", "sandbox = read-only", "Hello").code == 0


def test_a_schema_that_is_no_json_is_refused_before_anything_is_asked(beginner: Beginner) -> None:
    (beginner.shell.folder / "schema.json").write_text("{")
    flags = ("exec", "-m", beginner.model, "--output-schema")
    refused(beginner.types(*flags, "schema.json", "Hello"), "schema.json is not a JSON object")
    refused(beginner.types(*flags, "none.json", "Hello"), "'none.json' does not exist")
    refused(beginner.types(*flags, ".", "Hello"), "'.' is a directory")


def test_a_time_that_is_none_is_refused_in_words(beginner: Beginner) -> None:
    refused(beginner.types("exec", "--timeout", "soon", "Hello"), "must be a positive number of seconds, not 'soon'")


def test_a_port_that_is_none_is_refused_in_words(beginner: Beginner) -> None:
    text = "must be a whole number from 0 to 65535, not '{}'"
    for port in ("http", "99999"):
        refused(beginner.types("serve", "--port", port), text.format(port))


def test_limits_of_agents_as_codex_has_them_are_answered_with_ours(beginner: Beginner) -> None:
    refused(beginner.asks("[agents]\nmax_depth = 2\n"), "agents.max_depth must be a table", "limits.max_conversations")


def test_a_script_without_a_file_asks_for_one(beginner: Beginner) -> None:
    refused(beginner.asks("", "-m", "scripted/"), "did you mean scripted/FILE")


def test_a_home_that_cannot_be_written_is_told_without_python(beginner: Beginner) -> None:
    """/proc takes no directory, not even from root."""
    ran = beginner.types("exec", "-m", beginner.model, "Hello", TERTULIA_HOME="/proc/tertulia")
    assert (ran.code, ran.out) == (1, "")
    assert "/proc/tertulia/sessions" in ran.err


@each_row(
    ("config", "expected"),
    [
        ('network = "yes"\n', "network must be true, false or {allow = […], deny = […]}, not 'yes'"),
        ("model = 5\n", "model must be 'provider/model'"),
        ("[sandbx]\n", "there is no setting 'sandbx'; did you mean sandbox?"),
        ('[mcp_servers.x]\nargs = ["a"]\n', "mcp_servers.x has neither command nor url"),
        ("[mcp_servers.x]\ncommand = true\n", "mcp_servers.x.command must be a text"),
        ("mcpServers = {}\n", "'mcpServers'; did you mean mcp_servers?"),
        ("[limits]\nmax_turns = 5\n", "limits has no 'max_turns'; "),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(config: str, expected: str, tmp_path: Path) -> None:
    from tertulia.errors import InvalidParamsError
    from tertulia.session.settings.settings import load_settings

    file = tmp_path / "tertulia" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(config)
    with pytest.raises(InvalidParamsError) as error:
        load_settings(cwd=tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert str(file) in error.value.message
    assert expected in error.value.message
