"""The goal of a Codex thread: what the model works toward, turn after turn, until it says that it is done.

A goal lives as long as its thread is open. Each of its turns is submitted like any other message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, InvalidRequestError
from tertulia.events.clock import SystemClock
from tertulia.protocol.inputs import check_text
from tertulia.tools.function import FunctionTool
from tertulia.tools.tool import Tool

GoalStatus = Literal["active", "paused", "blocked", "usageLimited", "budgetLimited", "complete"]
Tell = Callable[[str, dict[str, Any]], None]

MAX_OBJECTIVE = 4_000
MAX_TURNS = 50
"""Of one goal without a budget: a model that never says that it is done must not go on for ever."""
TOOL = "update_goal"
_FIRST = (
    "Work toward this objective. Go on over as many turns as it takes, without asking whether to continue. When it is "
    f'reached, and you have checked that it is, call `{TOOL}` with status "complete". Where you cannot go on without a '
    'person, call it with status "blocked" and say what you need.'
)
_AGAIN = (
    "The objective is still open. Look at what is done and what is not, and go on with what is left. Call "
    f'`{TOOL}` with status "complete" only when all of it is reached, or with status "blocked" where you cannot go on.'
)


class SetGoal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/goal/set` takes."""

    thread_id: str
    objective: str | None = None
    status: GoalStatus | None = None
    token_budget: int | None = None


class Goal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A goal, as clients see it."""

    thread_id: str
    objective: str
    status: GoalStatus = "active"
    token_budget: int | None = None
    tokens_used: int = 0
    time_used_seconds: int = 0
    created_at: int
    updated_at: int


class ThreadGoal:
    """The goal of one thread, if it has one."""

    def __init__(self, thread_id: str, tell: Tell, submit: Callable[[str], str]) -> None:
        """`submit` starts a turn of the thread with a text, and returns its id."""
        self._thread_id = thread_id
        self._tell = tell
        self._submit = submit
        self._goal: Goal | None = None
        self._turns = 0
        self._turn_id: str | None = None
        """The turn of the goal that runs or waits: there is never a second one."""
        self._is_new = False
        """Whether the objective has not been sent yet."""

    @property
    def is_active(self) -> bool:
        """Whether turns are started for it."""
        return self._goal is not None and self._goal.status == "active"

    def shown(self) -> dict[str, Any] | None:
        """The goal as clients see it."""
        return None if self._goal is None else msgspec.to_builtins(self._goal)

    def set(self, request: SetGoal) -> dict[str, Any]:
        """Give the thread a goal, or change the one that it has. A refused change leaves the goal as it was."""
        now, goal = _now(), self._goal
        if request.token_budget is not None and request.token_budget <= 0:
            raise InvalidParamsError("tokenBudget must be a number of tokens above 0; leave it out for no budget")
        if request.objective is not None:
            goal = Goal(
                thread_id=self._thread_id, objective=_checked(request.objective), created_at=now, updated_at=now
            )
            self._turns, self._is_new = 0, True
        if goal is None:
            raise InvalidRequestError("this thread has no goal; give it one with `objective`")
        budget = goal.token_budget if request.token_budget is None else request.token_budget
        status = request.status or ("active" if request.objective is not None else goal.status)
        self._goal = replace(goal, status=status, token_budget=budget, updated_at=now)
        return msgspec.to_builtins(self._goal)

    def clear(self) -> bool:
        """Take the goal away; returns whether there was one. A turn that runs goes on."""
        had_one, self._goal = self._goal is not None, None
        return had_one

    def announce(self, turn_id: str | None = None) -> None:
        """Tell the client of the goal as it is now."""
        if self._goal is not None:
            params = {"threadId": self._thread_id, "turnId": turn_id, "goal": self.shown()}
            self._tell("thread/goal/updated", params)

    def report(self, status: Literal["complete", "blocked"]) -> str:
        """What the model says of it; returns what it is answered."""
        if self._goal is None or self._goal.status != "active":
            return "This conversation has no goal that is worked on."
        self._change(status=status)
        return f"The goal is {status}."

    def spend(self, tokens: int) -> None:
        """Count what a model request used."""
        if self._goal is not None and self.is_active:
            self._goal = replace(self._goal, tokens_used=self._goal.tokens_used + tokens)

    def turn_ended(self, turn_id: str, status: str, duration_ms: int) -> bool:
        """A turn of the thread has ended; returns whether another is to begin for the goal."""
        goal = self._goal
        if self._turn_id is not None and turn_id != self._turn_id:
            # A turn of the client, before that of the goal.
            return False
        self._turn_id = None
        if goal is None or goal.status != "active":
            return False
        self._goal = goal = replace(goal, time_used_seconds=goal.time_used_seconds + duration_ms // 1000)
        if status != "completed":
            self._change(status="paused" if status == "interrupted" else "blocked")
        elif goal.token_budget is not None and goal.tokens_used >= goal.token_budget:
            self._change(status="budgetLimited")
        elif goal.token_budget is None and self._turns >= MAX_TURNS:
            self._change(status="usageLimited")
        return self.is_active

    def go_on(self) -> None:
        """Start the next turn of an active goal, unless one of it runs or waits."""
        if self._goal is None or not self.is_active or self._turn_id is not None:
            return
        text = _FIRST if self._is_new else _AGAIN
        self._is_new = False
        self._turns += 1
        self._turn_id = self._submit(f"<goal>\n<objective>\n{self._goal.objective}\n</objective>\n{text}\n</goal>")

    def _change(self, *, status: GoalStatus) -> None:
        if self._goal is not None:
            self._goal = replace(self._goal, status=status, updated_at=_now())
            self.announce()


def goal_tool(goal: ThreadGoal) -> Tool:
    """The tool by which the model says how far a goal is."""

    async def update_goal(status: Literal["complete", "blocked"]) -> str:
        """Say that the goal of this conversation is reached, or that you cannot go on without a person."""
        return goal.report(status)

    return FunctionTool(update_goal, name=TOOL, read_only=True)


def _checked(objective: str) -> str:
    words = check_text(objective, "objective").strip()
    if not 0 < len(words) <= MAX_OBJECTIVE:
        raise InvalidParamsError(f"objective must have 1 to {MAX_OBJECTIVE:,} characters, not {len(words):,}")
    return words


def _now() -> int:
    return int(SystemClock().now())
