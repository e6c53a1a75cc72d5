"""Settings read from files, environment and command line, with where each came from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import NEVER
from tertulia.policy.approvals.project_grants import PROJECT_GRANT_TTL_S
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tertulia.session.settings.settings import LoadedSettings, Settings, load_settings


class Files:
    """A home with a repository in it, and the files that settings come from."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repo = self.home / "repo"
        self.user_file = self.home / ".config" / "tertulia" / "config.toml"
        self.project_file = self.repo / ".tertulia" / "config.toml"
        self.user_file.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)
        (self.repo / ".git").mkdir()

    def load(
        self, *overrides: str, cwd: Path | None = None, environ: dict[str, str] | None = None, **flags
    ) -> LoadedSettings:
        variables = {"HOME": str(self.home)} | (environ or {})
        return load_settings(cwd=cwd or self.repo, flags=flags, overrides=overrides, environ=variables)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path.resolve())


# ---- the layers


def test_with_nothing_anywhere_everything_is_a_default(files) -> None:
    loaded = files.load()
    begins_with = {"checkpoints": True, "project_instructions": True, "session_sockets": True, "stored_keys": True}
    usual = Settings(cwd=str(files.repo), project_grant_ttl_s=PROJECT_GRANT_TTL_S, **begins_with)
    assert loaded.settings == usual
    assert set(loaded.provenance.values()) == {"default"}
    assert {name.partition(".")[0] for name in loaded.provenance} == set(Settings.__struct_fields__) - {"sources"}
    assert (loaded.warnings, loaded.settings.project_servers) == ([], ())
    assert not loaded.environment.home.exists()


def test_the_users_file_is_read_and_named(files) -> None:
    files.user_file.write_text('model = "a/b"\nsandbox = "read-only"\n[limits]\nmcp_wait_s = 5\n')
    loaded = files.load()
    assert (loaded.settings.model, loaded.settings.rights.sandbox) == ("a/b", "read_only")
    assert loaded.settings.rights.limits.mcp_wait_s == 5
    named = {name for name, source in loaded.provenance.items() if source == str(files.user_file)}
    assert named == {"model", "sandbox", "limits.mcp_wait_s"}


def test_each_layer_wins_over_the_one_below(files) -> None:
    def model(*overrides: str, environ: dict[str, str] | None = None, **flags: str) -> tuple[object, str]:
        loaded = files.load(*overrides, environ=environ, **flags)
        return loaded.settings.model, loaded.provenance["model"]

    files.user_file.write_text('model = "file/m"')
    variables = {"TERTULIA_MODEL": "env/m"}
    assert model() == ("file/m", str(files.user_file))
    assert model(environ=variables) == ("env/m", "environment TERTULIA_MODEL")
    assert model("model=c/m", environ=variables) == ("c/m", "-c")
    assert model("model=c/m", environ=variables, model="flag/m") == ("flag/m", "flag --model")


def test_an_empty_variable_is_no_model(files) -> None:
    assert files.load(environ={"TERTULIA_MODEL": ""}).settings.model is None


def test_overrides_reach_into_tables_and_later_ones_win(files) -> None:
    files.user_file.write_text("[limits]\nmcp_wait_s = 5\nmax_conversations = 7\n")
    loaded = files.load("limits.mcp_wait_s=6", "limits.mcp_wait_s=8", "storage_policy.ttl=60")
    limits = loaded.settings.rights.limits
    assert (limits.mcp_wait_s, limits.max_conversations) == (8, 7)
    assert loaded.settings.storage_policy == Ttl(60)
    assert loaded.provenance["limits.mcp_wait_s"] == "-c"
    assert loaded.provenance["limits.max_conversations"] == str(files.user_file)


def test_flags_go_by_the_names_people_know(files) -> None:
    loaded = files.load(approval_policy="never", storage_policy="headers-only", sandbox=None, network=None)
    assert loaded.settings.approval_policy == NEVER
    assert loaded.settings.storage_policy == HeadersOnly()
    assert loaded.provenance["approval_policy"] == "flag --ask-for-approval"
    assert loaded.provenance["storage_policy"] == "flag --storage"
    assert loaded.provenance["sandbox"] == "default"


def test_a_directory_that_is_added_is_added_to_the_workspace(files) -> None:
    loaded = files.load(writable_roots=("../other", "~/data"))
    roots = {str(files.repo), str(files.home / "other"), str(files.home / "data")}
    assert set(loaded.settings.rights.writable_roots or ()) == roots
    assert loaded.provenance["writable_roots"] == "flag --add-dir"


def test_roots_in_the_users_file_are_read_from_where_the_work_is(files) -> None:
    files.user_file.write_text('writable_roots = ["build", "~/data"]')
    roots = files.load().settings.rights.writable_roots
    assert roots == (str(files.home / "data"), str(files.repo / "build"))


def test_the_environment_is_the_processs_own_when_none_is_given(files, monkeypatch) -> None:
    monkeypatch.setitem(os.environ, "HOME", str(files.home))
    monkeypatch.delitem(os.environ, "XDG_CONFIG_HOME", raising=False)
    monkeypatch.setitem(os.environ, "TERTULIA_MODEL", "env/m")
    loaded = load_settings(cwd=files.repo)
    assert loaded.settings.model == "env/m"
    assert loaded.environment.user_home == files.home


def test_the_working_directory_is_where_its_links_lead_and_must_exist(files) -> None:
    (files.home / "link").symlink_to(files.repo)
    assert files.load(cwd=files.home / "link").settings.cwd == str(files.repo)
    with pytest.raises(InvalidParamsError, match="missing is not a directory"):
        files.load(cwd=files.home / "missing")


# ---- the project's file


def test_a_project_narrows_and_the_command_line_holds_against_it(files) -> None:
    files.project_file.write_text('sandbox = "read-only"\n')
    loaded = files.load()
    assert loaded.settings.sandbox == "read_only"
    assert loaded.provenance["sandbox"] == str(files.project_file)
    assert files.load(sandbox="workspace-write").settings.sandbox == "workspace_write"
    assert files.load('sandbox="danger-full-access"').settings.sandbox == "danger_full_access"


def test_a_project_cannot_widen_what_the_user_set(files) -> None:
    """B7"""
    files.user_file.write_text('sandbox = "read-only"\nnetwork = false\n')
    files.project_file.write_text('sandbox = "danger-full-access"\nnetwork = true\nmodel = "evil/m"\n')
    loaded = files.load()
    assert (loaded.settings.sandbox, loaded.settings.network, loaded.settings.model) == ("read_only", False, None)
    assert loaded.provenance["sandbox"] == str(files.user_file)
    assert len(loaded.warnings) == 3
    assert all(warning.startswith(f"{files.project_file}: ") for warning in loaded.warnings)


def test_a_project_cannot_turn_web_search_on(files) -> None:
    files.project_file.write_text("tools_web_search_request = true\n")
    assert not files.load().settings.defaults.tools_web_search_request


def test_a_project_cannot_make_more_than_the_workspace_writable(files) -> None:
    """A8: nobody said where to write, and "/" is not stricter than that."""
    files.project_file.write_text('writable_roots = ["/", "~"]\n')
    loaded = files.load()
    assert loaded.settings.writable_roots is None
    assert len(loaded.warnings) == 1


def test_a_project_cannot_leave_the_roots_that_the_user_gave(files) -> None:
    files.user_file.write_text('writable_roots = ["/srv/a", "/srv/b"]\n')
    files.project_file.write_text('writable_roots = ["/srv/a/x", "/etc"]\n')
    assert files.load().settings.writable_roots == ("/srv/a/x",)


def test_a_link_in_a_project_leads_nowhere(files) -> None:
    """A7"""
    (files.repo / "out").symlink_to("/usr")
    files.project_file.write_text('writable_roots = ["out"]\n')
    assert files.load().settings.writable_roots == ()


def test_roots_of_a_project_are_read_from_the_project(files) -> None:
    (files.repo / "src").mkdir()
    files.project_file.write_text('writable_roots = ["src/build", "docs"]\n')
    loaded = files.load(cwd=files.repo / "src")
    assert loaded.settings.writable_roots == (str(files.repo / "src" / "build"),)


def test_every_file_between_root_and_working_directory_narrows(files) -> None:
    inner = files.repo / "src"
    (inner / ".tertulia").mkdir(parents=True)
    files.project_file.write_text('sandbox = "read-only"\n[limits]\nmax_conversations = 9\n')
    (inner / ".tertulia" / "config.toml").write_text(
        'sandbox = "workspace-write"\nshell_mode = "none"\n[limits]\nmax_conversations = 4\n'
    )
    loaded = files.load(cwd=inner)
    rights = loaded.settings.rights
    assert (rights.sandbox, rights.shell, rights.limits.max_conversations) == ("read_only", False, 4)
    assert loaded.provenance["limits.max_conversations"] == str(inner / ".tertulia" / "config.toml")


def test_servers_of_a_project_stay_apart_from_the_users(files) -> None:
    """C3"""
    files.user_file.write_text('[mcp_servers.mine]\ncommand = "x"\n')
    files.project_file.write_text('[mcp_servers.theirs]\ncommand = "evil"\n')
    loaded = files.load()
    assert set(loaded.settings.mcp_servers) == {"mine"}
    [theirs] = loaded.settings.project_servers
    assert (theirs.name, theirs.source) == ("theirs", str(files.project_file))
    assert loaded.warnings == []


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sandbox = \n", "not TOML at line 1, column"),
        ('sandbx = "read-only"\n', r"there is no setting 'sandbx'; did you mean sandbox\?"),
        ('sandbox = "open"\n', "sandbox must be one of read-only"),
        ("[limits]\nmcp_wait = 5\n", "limits has no 'mcp_wait'; did you mean mcp_wait_s"),
        (
            '[model_providers.x]\nbase_url = "http://x"\nwire = "soap"\n',
            r"wire: expected one of chat, messages, responses",
        ),
    ],
)
@pytest.mark.parametrize("place", ["user_file", "project_file"])
def test_a_mistake_in_a_file_is_refused_with_file_and_key(files, place, text, expected) -> None:
    file: Path = getattr(files, place)
    file.write_text(text)
    with pytest.raises(InvalidParamsError, match=rf"{file}: .*{expected}"):
        files.load()


@pytest.mark.parametrize(
    ("overrides", "flags", "expected"),
    [
        (["sandbx=1"], {}, "-c: there is no setting 'sandbx'"),
        (["sandbox=open"], {}, "-c: sandbox must be one of"),
        (["tools=[1]"], {}, "-c: tools must be a list of functions, tools, or names of installed plug-ins"),
        ([], {"sandbox": "open"}, "flag --sandbox: sandbox must be one of"),
        ([], {"approval_policy": "x"}, "flag --ask-for-approval: approval_policy must be"),
    ],
)
def test_a_mistake_on_the_command_line_is_refused_with_its_place(files, overrides, flags, expected) -> None:
    with pytest.raises(InvalidParamsError, match=expected):
        files.load(*overrides, **flags)


def test_nothing_that_is_shown_holds_a_secret(files) -> None:
    """E6"""
    files.user_file.write_text('[mcp_servers.fs]\ncommand = "x"\nenv = { KEY = "canary-1" }\n')
    loaded = files.load('shell_environment.set.TOKEN="canary-2"', environ={"OPENAI_API_KEY": "canary-3"})
    assert loaded.environment.variables["OPENAI_API_KEY"] == "canary-3"
    assert loaded.provenance["mcp_servers.fs.env.KEY"] == str(files.user_file)
    assert "canary" not in repr(loaded)


# ---- a switch of old


@pytest.mark.parametrize(
    ("text", "overrides", "policy"),
    [
        ("disable_response_storage = true", [], HeadersOnly()),
        ("disable_response_storage = false", [], Full()),
        ("", ["disable_response_storage=true"], HeadersOnly()),
        ('disable_response_storage = true\nstorage_policy = "full"', [], HeadersOnly()),
        ('storage_policy = "none"\ndisable_response_storage = true', [], NoStorage()),
        ('storage_policy = "none"', ["disable_response_storage=true"], NoStorage()),
        ('storage_policy = "none"', ["disable_response_storage=false"], NoStorage()),
        ("disable_response_storage = true", ["storage_policy=full"], Full()),
    ],
)
def test_the_switch_that_disabled_storage_means_headers_only(files, text, overrides, policy) -> None:
    """S002-20, X-33: true is headers_only where nothing stricter was said, false asks for nothing."""
    files.user_file.write_text(text)
    assert files.load(*overrides).settings.storage_policy == policy


def test_the_old_switch_has_the_provenance_of_its_place_and_narrows_in_a_project(files) -> None:
    """S002-20: what doctor shows is the policy and who asked for it."""
    files.project_file.write_text("disable_response_storage = true")
    loaded = files.load()
    assert (loaded.settings.storage_policy, loaded.warnings) == (HeadersOnly(), [])
    assert loaded.provenance["storage_policy"] == str(files.project_file)
    files.user_file.write_text('storage_policy = "none"')
    loaded = files.load()
    assert (loaded.settings.storage_policy, loaded.warnings) == (NoStorage(), [])


def test_an_old_switch_that_is_neither_true_nor_false_is_refused_with_its_place(files) -> None:
    """S002-20."""
    with pytest.raises(InvalidParamsError, match="-c: disable_response_storage must be true or false"):
        files.load("disable_response_storage=perhaps")


@pytest.mark.parametrize("root", [".git", ".git/hooks", "sub/.GIT", "link"])
def test_a_project_cannot_make_what_is_protected_writable_by_asking_for_nothing_else(files, root: str) -> None:
    """A4: a smaller root would be narrower by its path, and yet let commands write what no other root lets them."""
    (files.project_file.parent.parent / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
    (files.project_file.parent.parent / "link").symlink_to(".git")
    files.project_file.write_text(f'writable_roots = ["{root}", "src"]\n')
    loaded = files.load()
    workspace = os.path.realpath(files.project_file.parent.parent)
    assert loaded.settings.rights.writable_roots == (f"{workspace}/src",)
    assert any("protected" in warning for warning in loaded.warnings)


def test_what_the_user_made_writable_a_project_may_keep(files) -> None:
    files.user_file.write_text('writable_roots = [".git"]\n')
    files.project_file.write_text('writable_roots = [".git/info"]\n')
    workspace = os.path.realpath(files.project_file.parent.parent)
    assert files.load().settings.rights.writable_roots == (f"{workspace}/.git/info",)
