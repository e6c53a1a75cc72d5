"""An agent instance: a name, what kind of agent it is, and what runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from tertulia.context.validation import build, read_fields, require_choice, require_line, require_text
from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import AgentSpec

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class AgentInstanceMeta(AgentSpec, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The description of an agent. An unknown archetype is allowed and has the rights of `repo`."""

    cwd: str | None = None
    """The agent's workspace, if it has one of its own."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Unknown fields of the description."""

    def __post_init__(self) -> None:
        check_agent_name(self.name)
        require_choice("workspace_policy", self.workspace_policy, ("persistent", "ephemeral"))
        require_choice("launch_mode", self.launch_mode, ("managed", "direct"))
        for field, value in (("archetype", self.archetype), ("backend_type", self.backend_type)):
            require_line(f"{field} of agent {self.name!r}", value)
        if self.cwd is not None:
            require_text(f"cwd of agent {self.name!r}", self.cwd)

    @classmethod
    def of(cls, description: object, name: str | None = None) -> AgentInstanceMeta:
        """Read a description of an agent. Unknown fields are kept in `extra`.

        Args:
            description: An `AgentInstanceMeta`, or a mapping with its fields in snake_case or camelCase.
            name: The agent's name where the mapping has none.

        Returns:
            The description; the same object if it is an `AgentInstanceMeta` already.

        Raises:
            InvalidParamsError: The description is no mapping, or a field has an invalid value.
        """
        if isinstance(description, cls):
            return description
        values = read_fields(description, "the description of an agent")
        if name is not None:
            values.setdefault("name", name)
        extra = values.pop("extra", {})
        if not isinstance(extra, Mapping):
            raise InvalidParamsError("extra in the description of an agent must be a mapping")
        unknown = {key: values.pop(key) for key in sorted(values.keys() - set(cls.__struct_fields__))}
        whole = MappingProxyType({**cast("Mapping[str, Any]", extra), **unknown})
        return build(cls, {**values, "extra": whole}, "an agent")


def check_agent_name(name: object) -> str:
    """The name, if it is safe in a path, an address and a log; InvalidParams otherwise."""
    if not isinstance(name, str) or not _AGENT_NAME.match(name):
        raise InvalidParamsError(
            f"the agent name {name!r:.40} must be 1 to 64 letters, digits, dots, dashes or underscores, "
            "and begin with a letter or digit"
        )
    return name
