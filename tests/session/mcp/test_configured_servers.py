"""Which servers a session may start: the user's, and what of a project's files somebody has trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Http, ServerDefinition, Stdio
from tertulia.mcp.config.trust_store import TrustStore
from tertulia.session.mcp.configured_servers import ConfiguredServers, configured_servers
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import LoadedSettings, Settings, load_settings

SECRET = "hunter2hunter2"


class Place:
    """A home with a repository in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repo = self.home / "repo"
        self.config = self.home / ".config" / "tertulia" / "config.toml"
        self.config.parent.mkdir(parents=True)
        (self.repo / ".git").mkdir(parents=True)

    def write(self, servers: object, folder: str = ".") -> Path:
        path = self.repo / folder / ".mcp.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    def load(self, *overrides: str, folder: str = ".", **variables: str) -> LoadedSettings:
        return load_settings(cwd=self.repo / folder, overrides=overrides, environ={"HOME": str(self.home), **variables})

    def servers(self, *overrides: str, folder: str = ".", **variables: str) -> ConfiguredServers:
        loaded = self.load(*overrides, folder=folder, **variables)
        return configured_servers(loaded.settings, loaded.environment)

    def trust(self, name: str) -> None:
        loaded = self.load()
        [server] = [project_server for project_server in loaded.settings.project_servers if project_server.name == name]
        TrustStore(loaded.environment.home).trust(server)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def statuses(servers: ConfiguredServers) -> dict[str, str]:
    return {server.name: "ok" for server in servers.definitions} | {
        server.name: server.status for server in servers.unstarted
    }


# ---- the user's own


def test_the_users_servers_may_start(place) -> None:
    place.config.write_text('[mcp_servers.b]\nurl = "https://x/"\n[mcp_servers.a]\ncommand = "x"\n')
    servers = place.servers("mcp_servers.c.command=y")
    assert [server.name for server in servers.definitions] == ["a", "b", "c"]
    assert {server.origin for server in servers.definitions} == {"user"}
    assert (servers.unstarted, servers.warnings) == ((), ())


def test_on_the_command_line_a_server_may_be_said_in_any_order(place) -> None:
    place.config.write_text('[mcp_servers.a]\ncommand = "x"\n')
    servers = place.servers('mcp_servers.n.args=["1"]', "mcp_servers.a.enabled=false", "mcp_servers.n.command=y")
    assert statuses(servers) == {"a": "disabled", "n": "ok"}
    with pytest.raises(InvalidParamsError, match=r"^-c: mcp_servers\.n has neither command nor url"):
        place.servers('mcp_servers.n.args=["1"]')
    with pytest.raises(InvalidParamsError, match=r"^-c: mcp_servers must be a table"):
        place.servers("mcp_servers=0")


def test_a_bad_name_fails_that_server_alone(place) -> None:
    """S000-31"""
    place.config.write_text('[mcp_servers."no good"]\ncommand = "x"\n[mcp_servers.fine]\ncommand = "x"\n')
    servers = place.servers()
    assert statuses(servers) == {"fine": "ok", "no good": "failed"}
    assert "'no good' cannot be the name of a server" in str(servers.unstarted[0].error)


def test_a_server_that_is_switched_off_is_known(place) -> None:
    place.config.write_text('[mcp_servers.x]\ncommand = "x"\n')
    assert statuses(place.servers()) == {"x": "ok"}
    servers = place.servers("mcp_servers.x.enabled=false")
    assert statuses(servers) == {"x": "disabled"}
    assert servers.unstarted[0].definition is not None


def test_it_starts_where_the_session_works_unless_it_says_otherwise(place) -> None:
    place.config.write_text(
        '[mcp_servers.a]\ncommand = "x"\n[mcp_servers.b]\ncommand = "x"\ncwd = "sub"\n'
        '[mcp_servers.c]\ncommand = "x"\ncwd = "~/y"\n'
    )
    servers = place.servers('mcp_servers.d={command="x", cwd="here"}')
    places = {
        server.name: server.transport.cwd for server in servers.definitions if isinstance(server.transport, Stdio)
    }
    assert places == {
        "a": str(place.repo),
        "b": str(place.config.parent / "sub"),
        "c": "~/y",
        "d": str(place.repo / "here"),
    }


def test_code_may_give_tables_or_definitions(tmp_path) -> None:
    definitions = ServerDefinition(name="other", transport=Http(url="https://x/"), origin="code")
    settings = Settings(cwd=str(tmp_path), mcp_servers={"x": definitions, "y": {"command": "c", "cwd": "sub"}})
    servers = configured_servers(settings, Environment.read({"HOME": str(tmp_path)}))
    x, y = servers.definitions
    assert (x.name, x.origin, x.transport) == ("x", "code", definitions.transport)
    assert y.transport == Stdio(command="c", cwd=str(tmp_path / "sub"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[mcp_servers.x]\ncomand = "a"\n', "mcp_servers.x has neither command nor url"),
        (f'[mcp_servers.x]\ncommand = "a"\nenv = {{ K = ["{SECRET}"] }}\n', "mcp_servers.x.env.K must be a text"),
        (f'[mcp_servers.x]\nurl = "ftp://{SECRET}"\n', "mcp_servers.x.url must be an address like https://host/path"),
        ('[mcp_servers.x]\ncommand = "a"\n[mcp_servers.x]\ncommand = "b"\n', "not TOML at line 3, column"),
        ('[mcp_servers]\nx = "a"\n', "mcp_servers.x must be a table with command or url"),
        ("[mcp_servers.x\n", "not TOML at line 1, column"),
        ('[mcp_servers."a b"]\nargs = []\n', "mcp_servers.a b has neither command nor url"),
        ('[mcp_views.x]\napproval = "no"\n', "mcp_views.x.approval must be one of"),
    ],
)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_a_mistake_is_told_with_file_and_key_and_no_value(place, text, expected, whose) -> None:
    """Bad input: broken TOML with file and line, bad URL, duplicate server names."""
    file = place.config if whose == "user" else place.repo / ".tertulia" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    with pytest.raises(InvalidParamsError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{file}: ")
    assert expected in caught.value.message
    assert SECRET not in caught.value.message


# ---- a project's


def test_a_projects_server_does_not_start_before_it_is_trusted(place) -> None:
    """C3: neither of `.mcp.json` nor of `.tertulia/config.toml`."""
    file = place.write({"theirs": {"command": "evil"}})
    config = place.repo / ".tertulia" / "config.toml"
    config.parent.mkdir()
    config.write_text('[mcp_servers.also]\ncommand = "evil"\n')
    servers = place.servers()
    assert statuses(servers) == {"also": "untrusted", "theirs": "untrusted"}
    assert {server.name: (server.origin, server.source) for server in servers.unstarted} == {
        "also": ("project", str(config)),
        "theirs": ("project", str(file)),
    }
    assert "`tertulia mcp trust theirs` shows it" in str(servers.unstarted[1].error)
    place.trust("theirs")
    assert statuses(place.servers()) == {"also": "untrusted", "theirs": "ok"}
    place.trust("also")
    assert statuses(place.servers()) == {"also": "ok", "theirs": "ok"}
    assert {server.origin for server in place.servers().definitions} == {"project"}


@pytest.mark.parametrize(
    "edited",
    [{"command": "b"}, {"command": "a", "args": ["x"]}, {"command": "a", "env": {"LD_PRELOAD": "evil.so"}}],
)
def test_an_edit_makes_it_a_stranger_again(place, edited) -> None:
    """C2"""
    place.write({"x": {"command": "a"}})
    place.trust("x")
    assert statuses(place.servers()) == {"x": "ok"}
    place.write({"x": edited})
    assert statuses(place.servers()) == {"x": "untrusted"}


def test_what_was_read_is_what_is_checked_and_what_starts(place, tmp_path) -> None:
    """C2: whoever swaps the file, or where it points to, between the check and the start has swapped nothing."""
    files = {}
    for name in ("good", "evil"):
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps({"mcpServers": {"x": {"command": name}}}))
    link = place.repo / ".mcp.json"
    link.symlink_to(files["good"])
    place.trust("x")
    before = place.load()
    link.unlink()
    link.symlink_to(files["evil"])
    [started] = configured_servers(before.settings, before.environment).definitions
    assert isinstance(started.transport, Stdio)
    assert started.transport.command == "good"
    assert statuses(place.servers()) == {"x": "untrusted"}


def test_another_clone_of_the_same_project_is_not_trusted_with_it(place) -> None:
    place.write({"x": {"command": "a"}})
    place.trust("x")
    (place.repo / "clone" / ".git").mkdir(parents=True)
    place.write({"x": {"command": "a"}}, "clone")
    assert statuses(place.servers()) == {"x": "ok"}
    assert statuses(place.servers(folder="clone")) == {"x": "untrusted"}


def test_the_users_server_wins_over_a_projects_of_the_same_name(place) -> None:
    """Bad input: duplicate server names."""
    place.config.write_text('[mcp_servers.x]\ncommand = "mine"\n')
    file = place.write({"x": {"command": "theirs"}})
    place.trust("x")
    servers = place.servers()
    [server] = servers.definitions
    assert (server.origin, isinstance(server.transport, Stdio) and server.transport.command) == ("user", "mine")
    assert servers.warnings == (f"{file}: the MCP server 'x' is ignored, your own settings have one",)


def test_of_two_project_files_the_nearer_counts(place) -> None:
    outer, inner = place.write({"x": {"command": "a"}}), place.write({"x": {"command": "b"}}, "sub")
    servers = place.servers(folder="sub")
    assert [server.source for server in servers.unstarted] == [str(inner)]
    assert servers.warnings == (f"{outer}: the MCP server 'x' is ignored, {inner} has one",)


def test_what_would_widen_is_ignored_aloud_until_it_is_trusted(place) -> None:
    file = place.write({"x": {"command": "a", "required": True, "approval": "approve"}})
    before = place.servers()
    assert before.warnings == (
        f"{file}: x.approval is ignored until you trust the server",
        f"{file}: x.required is ignored until you trust the server",
    )
    assert before.definitions == ()
    place.trust("x")
    [server] = place.servers().definitions
    assert (server.required, server.approval) == (True, "approve")


def test_variables_are_looked_up_only_for_what_is_trusted(place) -> None:
    place.write({"x": {"command": "a", "env": {"T": "${MY_TOKEN}"}}})
    assert statuses(place.servers()) == {"x": "untrusted"}
    place.trust("x")
    failed = place.servers()
    assert statuses(failed) == {"x": "failed"}
    assert "mcpServers.x: the variable MY_TOKEN is not set" in str(failed.unstarted[0].error)
    [server] = place.servers(MY_TOKEN=SECRET).definitions
    assert isinstance(server.transport, Stdio)
    assert server.transport.env == {"T": SECRET}


def test_one_bad_entry_of_a_file_concerns_no_other(place) -> None:
    """S000-31"""
    place.write({"a b": {"command": "x"}, "old": {"type": "sse", "url": "https://x/"}, "fine": {"command": "x"}})
    for name in ("a b", "old", "fine"):
        place.trust(name)
    assert statuses(place.servers()) == {"a b": "failed", "old": "failed", "fine": "ok"}


def test_keys_of_other_hosts_are_told(place) -> None:
    file = place.write({"x": {"command": "a", "alwaysAllow": ["t"]}})
    place.trust("x")
    assert place.servers().warnings == (f"{file}: x.alwaysAllow is unknown here and ignored",)


def test_a_broken_trust_file_is_told_and_nothing_starts(place) -> None:
    place.write({"x": {"command": "a"}})
    place.trust("x")
    assert statuses(place.servers()) == {"x": "ok"}
    trust = TrustStore(place.load().environment.home).path
    trust.write_text("{")
    servers = place.servers()
    assert statuses(servers) == {"x": "untrusted"}
    assert servers.warnings[0].startswith(f"{trust}: ")


def test_the_home_of_the_user_is_no_project(place) -> None:
    (place.home / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "a"}}}')
    assert statuses(place.servers()) == {}


def test_a_broken_dot_mcp_is_refused_with_file_and_line(place) -> None:
    file = place.write({})
    file.write_text('{"mcpServers": {\n}')
    with pytest.raises(InvalidParamsError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{file}: ")
    assert "not JSON at line 2, column 2" in caught.value.message


def test_no_file_and_no_flag_can_speak_for_a_project(place) -> None:
    with pytest.raises(InvalidParamsError, match="there is no setting 'project_servers'"):
        place.load("project_servers=[]")
    with pytest.raises(InvalidParamsError, match="project_servers must be a list of servers"):
        Settings(project_servers=[{"command": "x"}])  # type: ignore[list-item]


# ---- secrets


def test_secrets_of_all_definitions_are_collected(place) -> None:
    place.config.write_text(
        f'[mcp_servers.a]\ncommand = "x"\nenabled = false\nenv = {{ TOKEN = "{SECRET}-1" }}\n'
        '[mcp_servers.b]\nurl = "https://x/"\nbearer_token_env_var = "PAT"\n'
    )
    assert set(place.servers(PAT=f"{SECRET}-2").secrets) == {f"{SECRET}-1", f"{SECRET}-2"}
    assert SECRET not in repr(place.load().settings)
