"""Grants of a project: stored by the user, found by exactly what was shown, over when the date or a person says so."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tertulia.errors import NotFoundError, StorageError
from tertulia.policy.approval_policy import NEVER, ON_FAILURE, ON_REQUEST, UNTRUSTED
from tertulia.policy.approvals.approval_request import STORED_GRANT_SCOPES, RequestedAction
from tertulia.policy.approvals.grants import Grants
from tertulia.policy.approvals.project_grants import MAX_GRANTS, AllGrants, GrantsFile, ProjectGrants
from tertulia.policy.commands.named_files import NamedFile, NamedFiles
from tests.policy.approval_stage import A, B, HandClock, request, subject
from tests.tables import Large

DAY = 86_400.0


class World:
    """A clock, a file, and what a session of one project sees of it."""

    def __init__(self, home: Path) -> None:
        self.clock = HandClock()
        self.home = home
        self.file = GrantsFile(home, self.clock)
        self.project = self.of("/w")

    def of(self, project: str) -> ProjectGrants:
        # A file of its own: what another process has read does not count here.
        file = GrantsFile(self.home, self.clock)
        return ProjectGrants(file, project, self.clock, ttl_s=30 * DAY, redact=lambda text: text.replace("s3cret", "*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


def grantable(**changes: object) -> RequestedAction:
    return request(**{"scopes": STORED_GRANT_SCOPES, **changes})


def test_a_grant_is_found_by_a_later_process_in_every_conversation_of_the_project(world: World) -> None:
    grant = world.project.add(grantable(), UNTRUSTED, None)
    later = world.of("/w")
    assert later.use(grantable(), UNTRUSTED) == later.use(grantable(conversation=B), UNTRUSTED) == grant
    assert (grant.scope, grant.conversation_id, grant.expires_in_s) == ("project", None, 30 * DAY)
    assert world.of("/elsewhere").use(grantable(), UNTRUSTED) is None
    assert world.of("/elsewhere").list() == []


def test_looking_creates_nothing(world: World) -> None:
    assert world.project.use(grantable(), UNTRUSTED) is None
    assert world.project.list() == world.file.read() == []
    world.file.sweep()
    assert not world.file.revoke("project-0")
    assert world.file.forget("/w") == 0
    assert not world.home.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"subject": subject("make", "install")},
        {"subject": subject(cwd="/w/sub")},
        {"subject": subject(environment="all")},
        {"subject": subject(sandbox="read-only")},
        {"kind": "escalation"},
        {"named": NamedFiles((NamedFile("/w/x", "1"),))},
        {"named": NamedFiles(known=False)},
    ],
)
def test_whatever_differs_is_asked_again(world: World, other: dict[str, object]) -> None:
    """B5, A3: bound to all that was shown, and to the content of the files that it names."""
    world.project.add(grantable(), UNTRUSTED, None)
    assert world.project.use(grantable(), UNTRUSTED) is not None
    assert world.project.use(grantable(**other), UNTRUSTED) is None


def test_a_file_that_changed_is_named(world: World) -> None:
    before, now = (NamedFiles((NamedFile("/w/run.sh", digest),)) for digest in ("1", "2"))
    world.project.add(grantable(named=before), UNTRUSTED, None)
    assert world.project.changed(grantable(named=now)) == ("/w/run.sh",)
    assert world.project.changed(grantable(subject=subject("other"), named=now)) == ()


def test_a_stricter_policy_is_not_lent_a_grant(world: World) -> None:
    world.project.add(grantable(), ON_REQUEST, None)
    assert world.project.use(grantable(), ON_FAILURE) is not None
    assert [world.project.use(grantable(), policy) for policy in (UNTRUSTED, NEVER)] == [None, None]


def test_it_ends_by_the_date_and_does_not_hold_before_it_was_given(world: World) -> None:
    """B4: a date that was set back prolongs nothing."""
    granted_at = world.clock.wall
    world.project.add(grantable(), UNTRUSTED, 10)
    for wall, holds in ((granted_at + 9, True), (granted_at - 1, False), (granted_at + 10, False), (granted_at, True)):
        world.clock.wall = wall
        assert (world.project.use(grantable(), UNTRUSTED) is not None) is holds
        assert (world.file.read() != []) is holds


def test_what_is_over_is_swept_from_the_file(world: World) -> None:
    world.project.add(grantable(), UNTRUSTED, 10)
    world.project.add(grantable(subject=subject("lasts")), UNTRUSTED, 20)
    world.clock.wall += 15
    assert "make test" in world.file.path.read_text()
    world.file.sweep()
    assert "make test" not in world.file.path.read_text()
    assert [grant.matches[0] for grant in world.file.read()] == ["exec: lasts"]


def test_revoking_holds_at_once_in_every_process(world: World) -> None:
    grant = world.project.add(grantable(), UNTRUSTED, None)
    running = world.of("/w")
    assert running.use(grantable(), UNTRUSTED) is not None
    assert world.file.revoke(grant.grant_id)
    assert running.use(grantable(), UNTRUSTED) is None
    assert not world.file.revoke(grant.grant_id)


def test_a_session_revokes_only_what_is_its_projects(world: World) -> None:
    grant = world.of("/elsewhere").add(grantable(), UNTRUSTED, None)
    assert world.project.revoke(grant.grant_id) is False
    assert world.project.revoke("0123-1") is None
    assert world.of("/elsewhere").revoke(grant.grant_id) is True


def test_all_of_a_project_can_be_forgotten(world: World) -> None:
    world.project.add(grantable(), UNTRUSTED, None)
    world.project.add(grantable(subject=subject("b")), UNTRUSTED, None)
    world.of("/elsewhere").add(grantable(), UNTRUSTED, None)
    assert world.file.forget("/w") == 2
    assert [grant.project for grant in world.file.read()] == ["/elsewhere"]


def test_the_same_is_stored_once_and_the_oldest_goes_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.policy.approvals.project_grants.MAX_GRANTS", 2)
    assert MAX_GRANTS == 1_000
    for words in ("a", "a", "b", "c"):
        world.project.add(grantable(subject=subject(words)), UNTRUSTED, None)
    assert [grant.matches[0] for grant in world.project.list()] == ["exec: b", "exec: c"]


def test_the_file_is_for_its_owner_alone_and_holds_no_secret(world: World) -> None:
    world.project.add(grantable(subject=subject("curl", "s3cret")), UNTRUSTED, None)
    assert stat.S_IMODE(world.file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.home.stat().st_mode) == 0o700
    assert "s3cret" not in world.file.path.read_text()
    assert world.project.use(grantable(subject=subject("curl", "s3cret")), UNTRUSTED) is not None
    assert world.project.use(grantable(subject=subject("curl", "*")), UNTRUSTED) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"grants": [{}]}', '{"version": 2}', Large(lambda: "x" * 5_000_000)]
)
def test_a_file_that_is_not_ours_grants_nothing_and_is_replaced(world: World, content: str) -> None:
    world.home.mkdir(mode=0o700)
    world.file.path.write_text(content)
    assert world.project.use(grantable(), UNTRUSTED) is None
    with pytest.raises(ValueError, match=r"content|version|larger"):
        world.file.read()
    world.file.sweep()
    assert world.file.path.read_text() == content
    world.project.add(grantable(), UNTRUSTED, None)
    assert world.project.use(grantable(), UNTRUSTED) is not None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_grants_nothing(world: World, mode: int) -> None:
    world.project.add(grantable(), UNTRUSTED, None)
    world.file.path.chmod(mode)
    assert world.of("/w").use(grantable(), UNTRUSTED) is None


def test_a_link_is_not_followed(world: World, tmp_path: Path) -> None:
    world.project.add(grantable(), UNTRUSTED, None)
    moved = tmp_path / "moved.json"
    os.rename(world.file.path, moved)
    world.file.path.symlink_to(moved)
    assert world.of("/w").use(grantable(), UNTRUSTED) is None
    assert json.loads(moved.read_text())["grants"]


def test_what_cannot_be_stored_is_not_granted(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    world = World(tmp_path / "home")
    with pytest.raises(StorageError, match="cannot be written"):
        world.project.add(grantable(), UNTRUSTED, None)
    assert world.project.use(grantable(), UNTRUSTED) is None


# ---- together with those of the session


def test_the_sessions_grant_counts_before_the_projects(world: World) -> None:
    both = AllGrants(Grants(world.clock), world.project, 60)
    project = both.add(grantable(), UNTRUSTED, "project", None)
    assert both.use(grantable(), UNTRUSTED) == project
    session = both.add(grantable(), UNTRUSTED, "session", None)
    assert both.use(grantable(), UNTRUSTED) == session
    assert session.expires_in_s == 60
    assert [grant.scope for grant in both.list(A)] == ["project", "session"]
    assert both.revoke(session.grant_id)
    assert both.revoke(project.grant_id)
    assert both.list() == []
    with pytest.raises(NotFoundError):
        both.revoke("never-1")


def test_changed_files_are_told_whichever_grant_they_keep_from_counting(world: World) -> None:
    before, now = (NamedFiles((NamedFile("/w/run.sh", digest),)) for digest in ("1", "2"))
    both = AllGrants(Grants(world.clock), world.project, None)
    assert both.changed(grantable(named=now)) == ()
    both.add(grantable(named=before), UNTRUSTED, "project", None)
    assert both.changed(grantable(named=now)) == ("/w/run.sh",)
    both.add(grantable(named=before), UNTRUSTED, "conversation", None)
    assert both.changed(grantable(named=now)) == ("/w/run.sh",)


def test_without_a_place_to_store_it_project_is_not_offered(world: World) -> None:
    alone = AllGrants(Grants(world.clock), None, None)
    assert alone.scopes(grantable()) == ("once", "conversation", "session")
    assert AllGrants(Grants(world.clock), world.project, None).scopes(grantable()) == STORED_GRANT_SCOPES
    assert alone.list() == []
    assert alone.changed(grantable()) == ()
    assert alone.use(grantable(), UNTRUSTED) is None
    assert alone.add(grantable(), UNTRUSTED, "project", None).scope == "session"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_grants_nothing(world: World, make: Callable[[Path, int], None]) -> None:
    world.home.mkdir(mode=0o700)
    make(world.file.path, 0o700)
    assert world.project.use(grantable(), UNTRUSTED) is None
    with pytest.raises((OSError, ValueError), match=r"expected a file|directory"):
        world.file.read()


def test_uses_of_a_project_grant_are_those_of_this_session(world: World) -> None:
    """Issue 22 (4): the file is not written when one is used."""
    world.project.add(grantable(), UNTRUSTED, None)
    stored = world.file.path.stat()
    world.project.use(grantable(), UNTRUSTED)
    world.project.use(grantable(), UNTRUSTED)
    assert [grant.uses for grant in world.project.list()] == [2]
    assert world.file.path.stat().st_mtime_ns == stored.st_mtime_ns
    assert [grant.uses for grant in world.of("/w").list()] == [0]
