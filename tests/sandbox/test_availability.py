"""Which tier commands have to expect, before there is one; and what to do where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.policy.rights import TOP
from tertulia.sandbox import availability
from tertulia.sandbox.availability import install_command, is_untried, require_tier, tier_outlook
from tertulia.sandbox.launcher import landlock
from tests.sandbox.confined import need
from tests.tables import each_row

WANTED = replace(TOP, sandbox="workspace_write")
REFUSES = "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "BWRAP", "/no/such/bwrap")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bubblewrap that is there and may not make namespaces."""
    program = tmp_path / "bwrap"
    program.write_text(REFUSES)
    program.chmod(0o755)
    monkeypatch.setattr(availability, "BWRAP", str(program))
    monkeypatch.setattr(availability, "_check_owner", lambda path: None)
    monkeypatch.setattr(availability, "_tried", {})


def test_bubblewrap_that_works_needs_no_word() -> None:
    need("bubblewrap")
    assert tier_outlook("auto") == tier_outlook("bubblewrap") == availability.TierOutlook("bubblewrap")
    assert not is_untried("auto")


@pytest.mark.usefixtures("missing")
def test_without_bubblewrap_it_is_landlock_and_the_reason_is_named() -> None:
    """Issue 19, 9"""
    need("landlock")
    for waits in (True, False):
        outlook = tier_outlook("auto", waits=waits)
        assert outlook.tier == "landlock"
        assert "/no/such/bwrap is missing; install it" in (outlook.message or "")
    assert not is_untried("auto")
    assert tier_outlook("landlock") == availability.TierOutlook("landlock")


@pytest.mark.usefixtures("missing")
def test_where_neither_works_commands_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 9: with both reasons and the command that installs it."""
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    outlook = tier_outlook("auto")
    assert outlook.tier is None
    assert outlook.message is not None
    assert outlook.message.startswith("commands will be refused")
    assert install_command() in outlook.message
    assert "has no Landlock" in outlook.message
    assert tier_outlook("landlock").tier is tier_outlook("bubblewrap").tier is None


@pytest.mark.usefixtures("refusing")
def test_a_bubblewrap_that_may_not_make_namespaces_is_found_out_when_it_is_tried() -> None:
    """Issue 19, 9: Ubuntu 24.04 keeps them from it, and so do containers."""
    need("landlock")
    assert (tier_outlook("auto", waits=False).tier, is_untried("auto")) == ("bubblewrap", True)
    outlook = tier_outlook("auto")
    assert outlook.tier == "landlock"
    assert "cannot make namespaces here (bwrap: setting up uid map: Permission denied)" in (outlook.message or "")
    assert (tier_outlook("auto", waits=False), is_untried("auto")) == (outlook, False)


SETTINGS = {
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "AppArmor keeps them from ordinary users"),
}


@each_row("name", SETTINGS)
def test_what_keeps_namespaces_away_is_named(name: str) -> None:
    value, advice = SETTINGS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "_setting", {name: value}.get)
        assert advice in availability._namespaces_advice()
    assert "container" in availability._namespaces_advice() or os.geteuid() != 0


RELEASES = [
    ("ID=debian\nVERSION_ID=12\n", "apt install bubblewrap"),
    ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt install bubblewrap"),
    ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install bubblewrap"),
    ("ID=arch\n", "pacman -S bubblewrap"),
    ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper install bubblewrap"),
    ("ID=alpine\n", "apk add bubblewrap"),
]


@each_row(("release", "command"), RELEASES)
def test_the_command_that_installs_it_is_this_distributions(release: str, command: str, tmp_path: Path) -> None:
    """Issue 19, 9"""
    (tmp_path / "os-release").write_text(release)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "_RELEASES", (str(tmp_path / "missing"), str(tmp_path / "os-release")))
        patch.setattr(os, "geteuid", lambda: 1000)
        assert install_command() == f"install it: `sudo {command}`"
        patch.setattr(os, "geteuid", lambda: 0)
        assert install_command() == f"install it: `{command}`"


def test_a_distribution_that_is_not_known_is_told_the_package(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(availability, "_RELEASES", (str(tmp_path / "missing"),))
    assert install_command() == "install the package `bubblewrap`"


@pytest.mark.usefixtures("missing")
def test_what_needs_a_tier_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 9: at the start, and only where a command could run that must be confined."""
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    for choice in ("auto", "bubblewrap", "landlock"):
        with pytest.raises(SandboxUnavailableError, match=r"will be refused.*danger-full-access"):
            require_tier(choice, WANTED)
    require_tier("auto", replace(WANTED, sandbox="danger_full_access"))
    require_tier("auto", replace(WANTED, shell=False, include_apply_patch_tool=False))


@pytest.mark.usefixtures("refusing")
def test_a_bubblewrap_is_tried_out_first_where_nothing_else_could_confine(monkeypatch: pytest.MonkeyPatch) -> None:
    need("landlock")
    require_tier("auto", WANTED)
    assert is_untried("auto"), "there is Landlock, whatever bubblewrap comes to"
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(SandboxUnavailableError, match="cannot make namespaces here"):
        require_tier("auto", WANTED)
