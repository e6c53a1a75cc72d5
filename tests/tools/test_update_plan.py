"""`update_plan`."""

from __future__ import annotations

import msgspec

from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import PlanStep, PlanUpdate
from tertulia.tools.dispatch import Dispatch, check_call
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import Result
from tertulia.tools.update_plan import UpdatePlan
from tests.tables import each_row
from tests.tools.calling import call, context


async def answer(arguments: object) -> tuple[Result, list[EventData]]:
    published: list[EventData] = []
    checked = check_call(
        call("update_plan", arguments),
        ToolRegistry([UpdatePlan()]),
        {"update_plan"},
        lambda _: context(published.append),
    )
    dispatch = Dispatch([checked], lambda _: context(published.append), began=str, ended=str)
    await dispatch.run()
    return dispatch.outputs[0].result, published


async def test_a_plan_is_published_and_the_model_is_told() -> None:
    plan = [{"step": "look", "status": "completed"}, {"step": "fix", "status": "in_progress"}]
    result, published = await answer({"plan": plan, "explanation": "found it"})
    assert result == Result("Plan updated")
    steps = [PlanStep("look", "completed"), PlanStep("fix", "in_progress")]
    assert published == [PlanUpdate(plan=steps, explanation="found it")]


async def test_the_explanation_may_be_left_out_and_the_plan_may_be_empty() -> None:
    assert (await answer({"plan": [], "explanation": None}))[1] == [PlanUpdate(plan=[], explanation=None)]
    result, published = await answer({"plan": []})
    assert result.success
    assert published == [PlanUpdate(plan=[], explanation=None)]


@each_row(
    ("arguments", "place"),
    [
        ({}, "$: "),
        ({"plan": "look"}, "$.plan: "),
        ({"plan": [{"step": "look"}]}, "$.plan[0]: "),
        ({"plan": [{"step": "look", "status": "done"}]}, "$.plan[0].status: "),
        ({"plan": [{"step": 3, "status": "pending"}]}, "$.plan[0].step: "),
        ({"plan": [], "colour": "red"}, "$.colour: "),
    ],
)
async def test_what_is_no_plan_is_refused_and_nothing_is_published(arguments: object, place: str) -> None:
    result, published = await answer(arguments)
    assert not result.success
    refusal = msgspec.json.decode(result.text)
    assert refusal["code"] == "invalid_params"
    assert refusal["reason"].startswith(place)
    assert published == []


def test_it_changes_nothing_and_keeps_its_place_among_siblings() -> None:
    tool = UpdatePlan()
    assert tool.read_only
    assert not tool.parallel_safe
