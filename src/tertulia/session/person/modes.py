"""The modes of a terminal: what plan, ask and auto mean in rights and instructions of the root.

`plan`: commands run in a read-only sandbox, and the model is told to write a plan only. `ask`: all but known-safe reads
is asked about. `auto`: what the sandbox holds runs unasked. In the last two the sandbox is the root's own again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import ApprovalName
from tertulia.policy.display_text import value_text
from tertulia.policy.rights import Rights, parse_right, to_wire
from tertulia.session.parts import SessionParts
from tertulia.session.person.widening import is_within
from tertulia.session.settings.conversation_fields import ConversationFields

Mode = Literal["plan", "ask", "auto"]
MODES: tuple[Mode, ...] = ("plan", "ask", "auto")
"""In the order in which a terminal goes through them."""

PLAN_INSTRUCTIONS = (
    "You are in plan mode. Look at what you need to see, then answer with a plan: the steps, the files that each of "
    "them changes, and how you would check the result. Change nothing and run nothing that changes anything: the "
    "sandbox is read-only. The user reads the plan and says whether to go on."
)
_APPROVALS: dict[Mode, ApprovalName] = {"ask": "untrusted", "auto": "on-request"}


class WiderRight(msgspec.Struct, frozen=True):
    """A right of the root that would become wider."""

    field: str
    before: Any
    after: Any
    beyond_session: bool
    """Whether it is more than the session was allowed so far: then the session is widened, and that is recorded."""


class ModeChange(msgspec.Struct, frozen=True):
    """The fields that a mode changes, and the rights that it widens."""

    mode: Mode
    fields: ConversationFields
    """What the root is given, as for `set_context`."""
    widens: tuple[WiderRight, ...] = ()
    """What a person has to agree to. Empty where the mode only narrows."""

    def check(self, *, agreed: bool) -> None:
        """Refuse what widens and was not agreed to."""
        if self.widens and not agreed:
            rights = ", ".join(
                f"{right.field} from {value_text(right.before)} to {value_text(right.after)}" for right in self.widens
            )
            raise InvalidParamsError(f"the mode {self.mode} widens {rights}; ask the person, then give widen=True")


def plan_mode_change(parts: SessionParts, mode: Mode) -> ModeChange:
    """What the mode changes of the root as it is now; InvalidParams where there is no such mode."""
    if mode not in MODES:
        raise InvalidParamsError(f"there is no mode {mode!r:.40}; there are {', '.join(MODES)}")
    root = parts.conversations.root
    own = _own_instructions(root)
    if mode == "plan":
        fields: ConversationFields = {"sandbox": "read-only", "user_instructions": _with_plan(own)}
        return ModeChange(mode, fields)
    changes: ConversationFields = {"approval_policy": _APPROVALS[mode], "user_instructions": own}
    if current_mode(root) == "plan":
        resolver = parts.terms_resolver
        usual = resolver.ceiling if "sandbox" in resolver.widened else root.default.rights
        changes["sandbox"] = to_wire("sandbox", usual.sandbox)
    wider = (_wider(parts, root.terms.rights, right, changes.get(right)) for right in ("sandbox", "approval_policy"))
    return ModeChange(mode, changes, tuple(right for right in wider if right is not None))


def current_mode(root: ConversationState) -> Mode | None:
    """The mode that the root is in; None where it is in none of them."""
    rights, text = root.terms.rights, root.terms.context.user_instructions or ""
    if text.endswith(PLAN_INSTRUCTIONS):
        return "plan" if rights.sandbox == "read_only" else None
    approval = to_wire("approval_policy", rights.approval_policy)
    return next((mode for mode in MODES if _APPROVALS.get(mode) == approval), None)


def _wider(parts: SessionParts, now: Rights, right: str, value: Any) -> WiderRight | None:
    if value is None:
        return None
    parsed = parse_right(right, value)
    if is_within(now, right, parsed):
        return None
    beyond = not is_within(parts.terms_resolver.ceiling, right, parsed)
    return WiderRight(right, to_wire(right, getattr(now, right)), value, beyond)


def _own_instructions(root: ConversationState) -> str | None:
    """Those of the root without ours."""
    text = root.terms.context.user_instructions
    return text if text is None else text.removesuffix(PLAN_INSTRUCTIONS).rstrip() or None


def _with_plan(own: str | None) -> str:
    return PLAN_INSTRUCTIONS if own is None else f"{own}\n\n{PLAN_INSTRUCTIONS}"
