"""Issue 25, 13: the profile of macOS holds what the escape suite asks of files, by the words of its language.

It was never read by a real Mac: `tests/sandbox/macos/profile_language.py` reads it here.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.macos.profile import seatbelt_profile
from tertulia.sandbox.runner import Confinement
from tests.sandbox.macos.profile_language import Profile
from tests.tables import each_row

ROOT, TEMPORARY = "/Users/ada/shop", "/private/var/folders/x/T/tertulia-command-1"
CONFINEMENT = Confinement(
    mode="workspace_write",
    writable_roots=(ROOT, "/Users/ada/other (1)"),
    masked=("/Users/ada/.ssh", "/Users/ada/.ssh/worktree/.env", f"{ROOT}/deep/secrets/key.pem", "/Users/ada/.netrc"),
    shown=("/Users/ada/.ssh/worktree",),
    protected_paths=(f"{ROOT}/deep/repo/.git",),
)
GOLDEN = Path(__file__).with_name("profile.sb")


def profile(confinement: Confinement = CONFINEMENT) -> Profile:
    return Profile(seatbelt_profile(confinement, TEMPORARY, ("/Users/ada/shop/.venv",)))


def test_it_is_written_like_this() -> None:
    """What a change of the generator changes is seen in a review."""
    assert seatbelt_profile(CONFINEMENT, TEMPORARY, ("/Users/ada/shop/.venv",)) == GOLDEN.read_text()


@each_row(
    "path, writes",
    [
        (f"{ROOT}/a", True),
        (f"{ROOT}/deep/b", True),
        ("/Users/ada/other (1)/c", True),
        (f"{TEMPORARY}/d", True),
        ("/Users/ada/shopping/a", False),
        ("/Users/ada/other 1/c", False),
        ("/Users/ada/a", False),
        ("/private/tmp/a", False),
        ("/private/var/folders/x/T/other", False),
        ("/etc/hosts", False),
        ("/dev/ttys001", False),
        ("/dev/disk0", False),
        # Protected names at the top of each root, there or not, in any case, with all below.
        (f"{ROOT}/.git", False),
        (f"{ROOT}/.git/hooks/pre-commit", False),
        (f"{ROOT}/.GIT/config", False),
        (f"{ROOT}/.Mcp.Json", False),
        ("/Users/ada/other (1)/.tertulia/x", False),
        (f"{ROOT}/.git/a\nb", False),
        (f"{ROOT}/.gitignore", True),
        (f"{ROOT}/xgit", True),
        (f"{ROOT}/deep/repo/.git/config", False),
        (f"{ROOT}/deep/repo/.GIT/config", False),
        (f"{ROOT}/deep/repo/file", True),
        # What runs us.
        (f"{ROOT}/.venv/lib/x.py", False),
        # Masks hold against writing too.
        (f"{ROOT}/deep/secrets/key.pem", False),
        (f"{ROOT}/deep/secrets/other.pem", True),
        ("/Users/ada/.ssh/worktree/x", False),
    ],
)
def test_files_are_written_in_roots_alone(path: str, writes: bool) -> None:
    assert profile().may_write(path) is writes


@each_row(
    "path, reads",
    [
        ("/etc/hosts", True),
        ("/usr/lib/libSystem.dylib", True),
        ("/Users/ada/notes", True),
        ("/Users/ada/.ssh", False),
        ("/Users/ada/.ssh/id_ed25519", False),
        ("/Users/ada/.SSH/id_ed25519", False),
        ("/Users/ada/.sshx", True),
        ("/Users/ada/.ssh/worktree/file", True),
        ("/Users/ada/.ssh/worktree/.env", False),
        (f"{ROOT}/deep/secrets/key.pem", False),
        (f"{ROOT}/deep/secrets/KEY.pem", False),
        ("/Users/ada/.netrc", False),
        ("/dev/ttys001", False),
        ("/dev/disk0", False),
        ("/dev/urandom", True),
    ],
)
def test_files_are_read_but_for_what_is_masked(path: str, reads: bool) -> None:
    assert profile().may_read(path) is reads


@each_row(
    "source, target, moves",
    [
        (f"{ROOT}/a", f"{ROOT}/b", True),
        (f"{ROOT}/a", "/Users/ada/a", False),
        ("/Users/ada/a", f"{ROOT}/a", False),
        (f"{ROOT}/.git", f"{ROOT}/x", False),
        (f"{ROOT}/x", f"{ROOT}/.git", False),
        (f"{ROOT}/x", f"{ROOT}/.GIT", False),
        # What is protected or masked does not come out under another name.
        (f"{ROOT}/deep", f"{ROOT}/x", False),
        (f"{ROOT}/DEEP", f"{ROOT}/x", False),
        (f"{ROOT}/deep/secrets", f"{ROOT}/x", False),
        (f"{ROOT}/deep/repo", f"{ROOT}/x", False),
        (f"{ROOT}/deep/other", f"{ROOT}/x", True),
        (ROOT, "/Users/ada/other (1)/x", False),
    ],
)
def test_names_are_changed_in_roots_alone(source: str, target: str, moves: bool) -> None:
    assert profile().may_move(source, target) is moves


def test_where_only_reading_is_allowed_the_temporary_directory_alone_is_written() -> None:
    read_only = profile(replace(CONFINEMENT, mode="read_only"))
    assert not read_only.may_write(f"{ROOT}/a")
    assert read_only.may_write(f"{TEMPORARY}/a")
    assert not read_only.may_read("/Users/ada/.ssh/id_ed25519")


def test_in_a_store_of_git_that_is_a_root_our_own_git_may_write() -> None:
    store = f"{ROOT}/.git"
    own = profile(replace(CONFINEMENT, writable_roots=(store,), git_stores=(store,), protected_paths=()))
    assert own.may_write(f"{store}/objects/x")
    assert not own.may_write(f"{ROOT}/a")


@each_row("network, reaches", [(False, False), (True, True), (HostRules(("a.example",)), False)])
def test_the_network_is_off_unless_all_of_it_is_allowed(network: bool | HostRules, reaches: bool) -> None:
    found = profile(replace(CONFINEMENT, network=network))
    assert found.allows("network-outbound", "ip 203.0.113.7:443") is reaches
    assert found.allows("network-bind", "ip 127.0.0.1:80") is reaches
    assert found.allows("network-outbound", "/private/var/run/mDNSResponder") is reaches
    # No socket by name, whatever the network is: those of other programs would be reached.
    assert not found.allows("network-outbound", "/private/tmp/ssh-agent")


def test_other_processes_and_services_are_out_of_reach() -> None:
    found = profile()
    assert found.allows("signal", "same-sandbox")
    assert not found.allows("signal", "others")
    for operation in ("mach-lookup", "appleevent-send", "job-creation", "iokit-open", "file-link", "system-privilege"):
        assert not found.allows(operation, "com.apple.coreservices.launchservicesd"), operation
    assert found.allows("file-write-data", "/dev/ttys004", "com.apple.sandbox.pty")


@each_row("name", ['a"b', "a\\b", "a.b", "a(b", "a[b]", "ä", "a\nb", "ß", "İ"])
def test_no_name_breaks_out_of_its_rule(name: str) -> None:
    root = f"/Users/ada/{name}"
    found = profile(replace(CONFINEMENT, writable_roots=(root,), masked=(f"{root}/x",), protected_paths=()))
    assert found.may_write(f"{root}/a")
    assert not found.may_read(f"{root}/x")
    assert not found.may_write(f"{root}/.git")
    assert not found.may_write("/Users/ada/a")
