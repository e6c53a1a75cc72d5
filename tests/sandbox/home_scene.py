"""A user's home with everything in it that is guarded, for the escape suite: made, looked at from outside, compared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from tertulia.sandbox.masks.guarded_paths import GuardedPaths, guarded_paths

CANARY = "canary-9c1b77"
CONFIG = 'model = "scripted/mine"\n'
OURS = (".config/tertulia", ".local/share/tertulia")
SECRETS = (
    *(".config/tertulia/token", ".local/share/tertulia/serve.token", ".local/share/tertulia/sessions/s.db"),
    *(".ssh/id_ed25519", ".aws/credentials", ".codex/auth.json", ".claude.json", ".git-credentials", ".npmrc"),
    *(".config/gh/hosts.yml", ".docker/config.json", ".azure/token", ".bash_history", ".pgpass"),
)
STARTUP = (".bashrc", ".profile", ".gitconfig", ".vim/plugin.vim", ".config/autostart/a.desktop", "dotfiles/zshrc")
MISSING = (
    *(".bash_profile", ".zshenv", ".ssh/authorized_keys", ".ssh/config", ".config/systemd/user/a.service", ".netrc"),
    *(".config/nvim/init.lua", "bin/git", ".local/bin/ls", ".config/git/config", ".kube/config", ".xprofile"),
)
PARENTS = (".config", ".local", ".local/share", ".ssh", ".config/autostart", "dotfiles", ".vim")


class Home:
    """One in this folder, which exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (*SECRETS, *STARTUP, *(f"{our}/config.toml" for our in OURS)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CANARY if name in SECRETS else CONFIG if name.endswith("config.toml") else "# mine\n")
        (folder / ".zshrc").symlink_to("dotfiles/zshrc")
        self.room = folder / "project"
        self.room.mkdir()
        self.before = self.state()

    def guarded(self) -> GuardedPaths:
        """As a session of this user has it."""
        return guarded_paths([str(self.folder)], [str(self.folder / name) for name in OURS])

    def places(self) -> dict[str, Any]:
        """What the probe is told."""
        lists = {"secrets": SECRETS, "ours": OURS, "startup": STARTUP, "missing": MISSING, "parents": PARENTS}
        there = {kind: [str(self.folder / name) for name in names] for kind, names in lists.items()}
        return {"canary": CANARY, "room": str(self.room), **there}

    def state(self) -> dict[str, str]:
        """All that is guarded, with contents and kinds; what is missing is not in it."""
        found: dict[str, str] = {}
        for name in (*OURS, *SECRETS, *STARTUP, *MISSING, *PARENTS, ".zshrc"):
            for path in (self.folder / name, *(self.folder / name).rglob("*")):
                if os.path.lexists(path):
                    found[str(path)] = _facts(path)
        return found

    def changes(self) -> list[str]:
        """What is different now."""
        after = self.state()
        return sorted(path for path in self.before.keys() | after.keys() if self.before.get(path) != after.get(path))


def _facts(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
