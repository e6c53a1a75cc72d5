"""A project's file may take rights away, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import NO_LIMITS
from tertulia.policy.rights import TOP, leq
from tertulia.session.settings.project_file import apply_project_file, find_project_files
from tertulia.session.settings.settings import Settings
from tests.policy.strategies import paths
from tests.tables import each_row

PATH = Path("/repo/.tertulia/config.toml")
CEILING = Settings(writable_roots=["/repo"], limits={"mcp_wait_s": 10}).rights

configs = st.fixed_dictionaries(
    {},
    optional={
        "approval_policy": st.sampled_from(["untrusted", "on-request", "on-failure", "never"]),
        "sandbox": st.sampled_from(["read-only", "workspace-write", "danger-full-access"]),
        "network": st.booleans(),
        "writable_roots": st.lists(paths, max_size=3),
        "storage_policy": st.sampled_from(["full", "none", {"ttl": 5}]),
        "include_plan_tool": st.booleans(),
        "tools_web_search_request": st.booleans(),
        "shell_mode": st.sampled_from(["none", "local"]),
        "visibility": st.sampled_from(["session", "subtree"]),
        "limits": st.fixed_dictionaries(
            {}, optional={"mcp_wait_s": st.integers(1, 20), "max_conversations": st.just(5)}
        ),
    },
)


@given(configs, st.booleans())
def test_whatever_a_project_says_the_result_is_never_wider(config, searching) -> None:
    """B7: the settings with the project's changes allow nothing that they did not allow without."""
    user = Settings(writable_roots=["/a"], tools_web_search_request=searching or None, limits={"mcp_wait_s": 10})
    project = apply_project_file(PATH, config, user.rights)
    limits = asdict(user.limits) | project.changes.pop("limits", {})
    narrowed = replace(user, limits=limits, **project.changes)
    assert leq(narrowed.rights, user.rights)
    assert leq(narrowed.defaults, user.defaults)


def test_a_stricter_value_is_taken_and_a_looser_one_is_refused_aloud() -> None:
    config = {"sandbox": "read-only", "network": True, "limits": {"mcp_wait_s": 60, "max_conversations": 3}}
    project = apply_project_file(PATH, config, CEILING)
    assert project.changes == {"sandbox": "read_only", "limits": {"max_conversations": 3}}
    assert project.warnings == [
        f"{PATH}: network = True is more than allowed, False is used",
        f"{PATH}: limits = {{'mcp_wait_s': 60}} is more than allowed, {{'mcp_wait_s': 10}} is used",
    ]


def test_the_shell_can_be_taken_away_but_not_chosen() -> None:
    assert apply_project_file(PATH, {"shell_mode": "none"}, TOP).changes == {"shell_mode": "none"}
    chosen = apply_project_file(PATH, {"shell_mode": "local"}, TOP)
    assert (chosen.changes, len(chosen.warnings)) == ({}, 1)


@each_row(
    ("name", "value"),
    [
        ("model", "evil/model"),
        ("model_providers", {"p": {"base_url": "https://evil.example", "wire": "chat"}}),
        ("notify", ["sh", "-c", "evil"]),
        ("executors", {"codex": {"command": ["evil"]}}),
        ("acp", {"x": {"command": "evil"}}),
        ("shell_environment", {"set": {"LD_PRELOAD": "evil"}}),
        ("retention", {"max_age_days": 1}),
        ("close_timeout_s", 1),
        ("mcp_views", {"all": {}}),
        ("on_tool_conflict", "skip"),
    ],
)
def test_what_has_no_stricter_and_looser_is_ignored_with_file_and_key(name, value) -> None:
    project = apply_project_file(PATH, {name: value}, TOP)
    assert project.changes == {}
    assert project.warnings == [f"{PATH}: {name} is ignored, a project's file may only narrow"]


def test_servers_are_named_and_not_taken() -> None:
    """C3"""
    project = apply_project_file(PATH, {"mcp_servers": {"fs": {"command": "evil"}}}, TOP)
    [server] = project.servers
    assert (project.changes, project.warnings) == ({}, [])
    assert (server.name, server.entry, server.folder) == ("fs", {"command": "evil"}, "/repo")


@each_row(
    ("config", "expected"),
    [
        ({"sandbx": "read-only"}, "there is no setting 'sandbx'; did you mean sandbox"),
        ({"sandbox": "off"}, "sandbox must be one of"),
        ({"limits": {"mcp_wait": 1}}, "limits has no 'mcp_wait'"),
        ({"mcp_servers": []}, "mcp_servers must be a table"),
    ],
)
def test_a_file_with_a_mistake_is_an_error_and_not_a_wider_right(config, expected) -> None:
    with pytest.raises(InvalidParamsError, match=rf"/repo/\.tertulia/config\.toml: {expected}"):
        apply_project_file(PATH, config, replace(TOP, limits=NO_LIMITS))


# ---- where it is looked for


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "repo" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "home"


def folders(cwd: Path, home: Path) -> list[Path]:
    found = find_project_files(cwd, home)
    assert all(path.parts[-2:] == (".tertulia", "config.toml") for path in found)
    return [path.parent.parent for path in found]


def test_from_the_root_of_the_repository_down_to_where_one_is(home) -> None:
    (home / "repo" / ".git").mkdir()
    repo = home / "repo"
    assert folders(repo / "src" / "deep", home) == [repo, repo / "src", repo / "src" / "deep"]
    assert folders(repo, home) == [repo]


def test_a_stub_of_the_sandbox_does_not_cut_off_what_the_repository_narrows(home) -> None:
    """A5: one stands there while a command runs below the root, and after a kill."""
    repo = home / "repo"
    (repo / ".git").mkdir()
    (repo / "src" / ".git").mkdir(0o1555)
    assert folders(repo / "src", home) == [repo, repo / "src"]


def test_a_worktree_whose_git_is_a_file_is_a_repository(home) -> None:
    (home / "repo" / "src" / ".git").write_text("gitdir: elsewhere\n")
    assert folders(home / "repo" / "src" / "deep", home) == [home / "repo" / "src", home / "repo" / "src" / "deep"]


def test_without_a_repository_the_search_ends_below_home(home) -> None:
    assert folders(home / "repo" / "src", home) == [home / "repo", home / "repo" / "src"]


def test_home_itself_is_no_project(home) -> None:
    (home / ".git").mkdir()
    assert folders(home, home) == []
    assert folders(home / "repo", home) == [home / "repo"]


def test_outside_of_home_and_repository_only_the_directory_itself_counts(home, tmp_path) -> None:
    """What lies in a shared directory such as /tmp may be anybody's."""
    elsewhere = tmp_path / "elsewhere" / "work"
    elsewhere.mkdir(parents=True)
    assert folders(elsewhere, home) == [elsewhere]


def test_home_is_found_behind_a_link(home, tmp_path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert folders(home / "repo", tmp_path / "link") == [home / "repo"]
