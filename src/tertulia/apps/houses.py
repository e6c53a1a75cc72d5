"""The house that an editor's sessions come from: the settings of each directory, as this command line has them."""

from __future__ import annotations

from pathlib import Path

from tertulia.apps.global_flags import Given
from tertulia.server.as_acp_house import House, Settled
from tertulia.session.host import Host
from tertulia.session.settings import Loaded, load_settings


def house_of(given: Given, loaded: Loaded, host: Host, mode: str | None = None) -> House:
    """Flags hold in every directory. `mode`: what a new session begins in, if not in what it may have."""

    def settle(cwd: Path) -> Settled:
        there = load_settings(cwd=cwd, flags={**given.flags, "cwd": str(cwd)}, overrides=given.overrides)
        return Settled(there.settings, there.warnings)

    named = loaded.provenance.get("model", "").startswith(("flag", "-c"))
    return House(host, settle, loaded.environment, mode=mode, model=named)
