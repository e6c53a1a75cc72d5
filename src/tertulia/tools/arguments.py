"""The arguments of a tool as a model is told about them, and the little more that is taken from one.

A model brings habits along from the programs that it learnt on: it writes null for what it leaves out, and words that
mean something there. Refusing them costs a turn; showing them would promise what we do not do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tertulia.protocol.tool_spec import ToolSpec

Properties = Mapping[str, Mapping[str, Any]]


def define_tool(
    name: str, description: str, shown: Properties, required: Iterable[str], also: Properties | None = None
) -> ToolSpec:
    """A tool with these arguments; `also` are taken and not shown. What is not required may be null. No others."""
    needed = list(required)
    taken = {each: schema if each in needed else or_null(schema) for each, schema in shown.items()}
    accepts = _object({**taken, **(also or {})}, needed)
    return ToolSpec.define(name, description, _object(shown, needed), accepts=accepts)


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    listed = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **listed}


def _object(properties: Properties, required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
