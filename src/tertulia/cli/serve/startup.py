"""What verbs that serve do first: print the warnings of the settings, check the model, make the session factory."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.models.choice import NoModel
from tertulia.protocol.conversation_fields import SANDBOX_MODES, SandboxMode, sandbox_to_wire
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.members import ModelCatalogue
from tertulia.session.settings.layers import DEFAULT
from tertulia.session.settings.settings import LoadedSettings

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 1 << 20
_KEPT_BYTES = 8 << 20
"""Bytes of free memory to keep at the end of the heap, so that small messages need no system call."""


def load_and_warn(flags: GlobalFlags) -> LoadedSettings:
    """Load the settings and print their warnings to standard error; from now on free memory is given back."""
    _return_large_blocks()
    loaded = flags.load()
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    for warning in loaded.warnings:
        notes.line(("warning", "yellow"), f" {warning}")
    return loaded


def check_model(loaded: LoadedSettings) -> None:
    """Raise for a model that does not exist now, and not for the first client; print a warning where there is none."""
    models = ModelCatalogue(loaded.settings, loaded.environment)
    chosen = models.choose(loaded.settings.model)
    if isinstance(chosen, NoModel):
        # Clients can name one for each conversation, and an executor needs none.
        TerminalOutput(sys.stderr, loaded.environment.variables).line(("warning", "yellow"), f" {chosen.reason}")
    else:
        models.find(chosen)


def build_session_factory(
    flags: GlobalFlags, loaded: LoadedSettings, host: Host, mode: str | None = None, *, open_ended: bool = False
) -> SessionFactory:
    """A factory whose sessions have the settings of their directory, with these flags on top.

    Args:
        mode: the sandbox mode that a new session begins in; the widest it may have if None.
        open_ended: whether the client may choose any mode up to `widest_mode`.
    """

    def load(cwd: Path) -> DirectorySettings:
        there = flags.load(cwd)
        settings = replace(there.settings, begins_in=mode)
        if open_ended:
            usual = sandbox_to_wire(there.settings.rights.sandbox)
            settings = replace(settings, sandbox=sandbox_to_wire(widest_mode(there)), begins_in=mode or usual)
        return DirectorySettings(settings, there.warnings)

    named = loaded.provenance.get("model", "").startswith(("flag", "-c"))
    return SessionFactory(host, load, loaded.environment, model=named)


def widest_mode(loaded: LoadedSettings) -> SandboxMode:
    """The widest mode that the user may choose: any, unless a setting limits it."""
    is_set = loaded.provenance["sandbox"] != DEFAULT
    return loaded.settings.rights.sandbox if is_set else SANDBOX_MODES[-1]


def _return_large_blocks() -> None:
    """Have every block of a megabyte or more mapped by itself, and unmapped when freed. Only glibc is told so.

    By default glibc raises that threshold to the largest block that was ever freed, up to 32 MiB. After the first large
    message all others then come from the heap, where a small block behind them keeps them from being given back.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
