"""When a person is asked before something runs.

A policy is a product of three rights; the four names people know are presets of it. Their meet can be one
without a name: never and untrusted together let known-safe reads run, deny the rest and never ask.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import Conjunction, Product, TotalOrder
from tertulia.protocol.name_hints import word_hint

AutoRun = Literal["trusted", "sandboxed"]
ApprovalName = Literal["untrusted", "on-request", "on_request", "on-failure", "on_failure", "never"]
"""A preset as people write it."""


class ApprovalPolicy(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What runs unasked, and what may be asked for."""

    auto_run: AutoRun
    """What runs without asking: only known-safe reads, or anything inside the sandbox."""
    may_ask: bool
    """Whether a person may be asked; where not, what would need asking is denied at once."""
    retry_outside_on_failure: bool
    """Whether a command that failed inside the sandbox may be asked for outside of it."""

    @property
    def needs_asking(self) -> bool:
        """Whether the policy requires asking a person. What is asked on request only does not count."""
        return self.auto_run == "trusted" or self.retry_outside_on_failure


UNTRUSTED = ApprovalPolicy("trusted", may_ask=True, retry_outside_on_failure=False)
ON_REQUEST = ApprovalPolicy("sandboxed", may_ask=True, retry_outside_on_failure=False)
ON_FAILURE = ApprovalPolicy("sandboxed", may_ask=True, retry_outside_on_failure=True)
NEVER = ApprovalPolicy("sandboxed", may_ask=False, retry_outside_on_failure=False)

PRESETS = {"untrusted": UNTRUSTED, "on-request": ON_REQUEST, "on-failure": ON_FAILURE, "never": NEVER}
"""By their names on the wire."""

_NAMES = {policy: name for name, policy in PRESETS.items()}

APPROVAL_ORDER = Product(
    ApprovalPolicy,
    {
        "auto_run": TotalOrder(("trusted", "sandboxed").index),
        "may_ask": Conjunction(),
        "retry_outside_on_failure": Conjunction(),
    },
)


def approval_from_wire(value: object) -> ApprovalPolicy:
    """Parse a preset's name (`-` and `_` are the same) or the mapping of all three fields."""
    match value:
        case ApprovalPolicy():
            return value
        case str() if (preset := PRESETS.get(value.replace("_", "-"))) is not None:
            return preset
        case dict():
            try:
                return msgspec.convert(value, ApprovalPolicy)
            except msgspec.ValidationError:
                pass
        case _:
            pass
    raise InvalidParamsError(
        'approval_policy must be "untrusted", "on-request", "on-failure", "never" or {"auto_run": "trusted" '
        f'or "sandboxed", "may_ask": boolean, "retry_outside_on_failure": boolean}}, not {value!r:.80}'
        + word_hint(cast(object, value), PRESETS)
    )


def approval_to_wire(policy: ApprovalPolicy) -> str | dict[str, Any]:
    """The name where one fits, else the mapping."""
    return _NAMES.get(policy) or msgspec.structs.asdict(policy)


def approval_text(policy: ApprovalPolicy) -> str:
    """A policy in plain words: its name where it has one, else what it says."""
    if (name := _NAMES.get(policy)) is not None:
        return name
    runs = "only known-safe reads run" if policy.auto_run == "trusted" else "what the sandbox holds runs"
    asks = "a person is asked about the rest" if policy.may_ask else "the rest is refused unasked"
    retries = " (or tried again outside the sandbox)" if policy.retry_outside_on_failure else ""
    return f"{runs}, {asks}{retries}"
