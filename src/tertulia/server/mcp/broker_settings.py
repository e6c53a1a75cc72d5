"""What a broker is set to: the user's own servers, and one of the named views of them. Imports little, for relays."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.named_view import NamedView, view_from_wire
from tertulia.policy.limits import Limits
from tertulia.protocol.storage import HeadersOnly, strictest
from tertulia.session.settings.settings import Settings


def broker_settings(settings: Settings, user_home: Path) -> Settings:
    """The user's own servers, shared by whoever comes: not a project's, and in nobody's project directory.

    What is called is written down, what is said is not: it belongs to other programs. How much of an answer a model
    reads is theirs to say too, unless the user has said it: what we leave out by ourselves is only what is huge.
    """
    limits = settings.rights().limits
    if limits.max_output_bytes == Limits().max_output_bytes:
        limits = replace(limits, max_output_bytes=None)
    return replace(
        settings,
        cwd=str(user_home),
        # No model works for a broker, and no command of one runs here.
        allow_home_workspace=True,
        is_broker=True,
        model="scripted/tour",
        project_servers=(),
        limits=limits,
        storage_policy=strictest(settings.rights().storage_policy, HeadersOnly()),
    )


def find_view(settings: Settings, name: str | None) -> NamedView:
    """The view of that name, or the one with everything; InvalidParams says which there are."""
    if name is None:
        return NamedView(name="all")
    view = settings.mcp_views.get(name)
    if view is None:
        known = ", ".join(sorted(settings.mcp_views)) or "none"
        raise InvalidParamsError(f"there is no view {name[:64]!r}, [mcp_views] of the configuration has {known}")
    return view if isinstance(view, NamedView) else view_from_wire(name, view)
