"""Makes the session factory of ACP and Codex clients: settings of a directory, with the flags of the command line."""

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
    flags: GlobalFlags, loaded: LoadedSettings, host: Host, mode: str | None = None, *, open_ended: bool = False
) -> SessionFactory:
    """A factory whose sessions have the settings of their directory, with these flags on top.

    Args:
        mode: the sandbox mode that a new session begins in; the widest it may have if None.
        open_ended: whether the client may choose any mode up to `widest_mode`.
    """

    def settle(cwd: Path) -> DirectorySettings:
        there = load_settings(cwd=cwd, flags={**flags.values, "cwd": str(cwd)}, overrides=flags.overrides)
        settings = replace(there.settings, begins_in=mode)
        if open_ended:
            usual = sandbox_to_wire(there.settings.rights().sandbox)
            settings = replace(settings, sandbox=sandbox_to_wire(widest_mode(there)), begins_in=mode or usual)
        return DirectorySettings(settings, there.warnings)

    named = loaded.provenance.get("model", "").startswith(("flag", "-c"))
    return SessionFactory(host, settle, loaded.environment, model=named)


def widest_mode(loaded: LoadedSettings) -> SandboxMode:
    """The widest mode that the user may choose: any, unless a setting limits it."""
    is_set = loaded.provenance["sandbox"] != DEFAULT
    return loaded.settings.rights().sandbox if is_set else SANDBOX_MODES[-1]
