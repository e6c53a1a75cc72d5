"""`update_plan`: the model publishes the steps of its work, for people to follow."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol.tool_events import PlanStep, PlanUpdate
from tertulia.tools.tool import CallContext, Outcome, Result, define_tool

_SPEC = define_tool(
    "update_plan",
    "Show the user your plan for a task of several steps, and replace it whenever a step is done or the plan "
    "changes. Give all steps each time. At most one step is in_progress.",
    {
        "explanation": {"type": "string", "description": "Why the plan changed, if it did."},
        "plan": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "string", "description": "A few words."},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                },
                "required": ["step", "status"],
                "additionalProperties": False,
            },
        },
    },
    ["plan"],
)


class UpdatePlan:
    """Publishes each plan as a `plan_update`. Nothing is kept: the newest plan is in the history."""

    __slots__ = ()
    spec = _SPEC
    parallel_safe = False
    read_only = True

    def check(self, arguments: Any, call: CallContext) -> None:
        """The schema says it all."""

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Publish the plan as an event."""
        plan = msgspec.convert(arguments["plan"], list[PlanStep])
        call.publish(PlanUpdate(plan=plan, explanation=arguments.get("explanation")))
        return Result("Plan updated")
