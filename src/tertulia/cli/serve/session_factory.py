"""The house that an editor's sessions come from: the settings of each directory, as this command line has them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags
from tertulia.policy.sandbox_mode import SANDBOX_MODES, SandboxMode, sandbox_to_wire
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.settings.layers import DEFAULT
from tertulia.session.settings.settings import LoadedSettings, load_settings


def build_session_factory(
    given: GlobalFlags, loaded: LoadedSettings, host: Host, mode: str | None = None, *, open_ended: bool = False
) -> SessionFactory:
    """Flags hold in every directory. `mode`: what a new session begins in, if not in what it may have.

    `open_ended`: the person at the other end may choose any mode, see `most_of`.
    """

    def settle(cwd: Path) -> DirectorySettings:
        there = load_settings(cwd=cwd, flags={**given.flags, "cwd": str(cwd)}, overrides=given.overrides)
        settings = replace(there.settings, begins_in=mode)
        if open_ended:
            usual = sandbox_to_wire(there.settings.rights().sandbox)
            settings = replace(settings, sandbox=sandbox_to_wire(widest_mode(there)), begins_in=mode or usual)
        return DirectorySettings(settings, there.warnings)

    named = loaded.provenance.get("model", "").startswith(("flag", "-c"))
    return SessionFactory(host, settle, loaded.environment, model=named)


def widest_mode(loaded: LoadedSettings) -> SandboxMode:
    """The widest mode that the user's own hand may choose: any, where no setting says how far it goes."""
    said = loaded.provenance["sandbox"] != DEFAULT
    return loaded.settings.rights().sandbox if said else SANDBOX_MODES[-1]
