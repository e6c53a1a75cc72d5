"""Places that no program of a session sees, also none outside the sandbox: checks, while a candidate is measured."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.session.session import Session


async def hide_places(session: Session, paths: Sequence[str]) -> bool:
    """From now on executors and ACP agents find nothing there. Commands are held by masks of the settings.

    False, and nothing has changed, where the kernel gives no namespace for that.
    """
    return await session.parts.command_services.sandbox.hide(paths)
