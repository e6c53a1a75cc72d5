"""Places that no program of a session sees, also none outside the sandbox: checks, while a candidate is measured."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.session import Session


async def hide_places(session: Session, paths: Sequence[str]) -> bool:
    """From now on executors and ACP agents find nothing there. Commands are held by masks of the settings.

    False, and nothing has changed, where there is no namespace for that.
    """
    sandbox = session.parts.command_services.sandbox
    return isinstance(sandbox, Sandbox) and await sandbox.hide(paths)
