"""JSON Schema for the arguments of tools: compiled once, checked often, always within bounds.

Written by hand because neither schemas (of MCP servers) nor values (of models) can be trusted, and no library
bounds what a pair of them may cost: loops of references, patterns that explode, alternatives that multiply.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.schema.check import MAX_PROBLEMS, Budget, Check, Problem, is_array, is_object, json_type
from tertulia.schema.keywords import BUILDERS
from tertulia.schema.pattern import Pattern

ResolveReference = Callable[[str], Any]
"""The schema that a reference names."""


def has_defaults(schema: Any) -> bool:
    """Whether this place of a schema requires a property that has a default, or may have one by what it refers to."""
    return any("default" in table or "$ref" in table or "allOf" in table for _, table in _required_tables(schema))


def fill_defaults(value: Any, schema: Any, resolve: ResolveReference, budget: Budget) -> Any:
    """The value with the defaults, a copy as far as anything was put in; the same value where nothing was.

    Looks into given properties and items, through references and `allOf`. Alternatives (`anyOf`, `if`) are left alone:
    which of them is meant is not known before the value is checked. A default itself is taken as it is.
    """
    budget.descend()
    if is_object(schema):
        if isinstance(reference := schema.get("$ref"), str):
            value = fill_defaults(value, resolve(reference), resolve, budget)
        if is_array(parts := schema.get("allOf")):
            for part in parts:
                value = fill_defaults(value, part, resolve, budget)
        if is_object(value):
            value = _object(value, schema, resolve, budget)
        elif is_array(value) and is_object(item := schema.get("items")):
            value = _list(value, item, resolve, budget)
    budget.depth += 1
    return value


def _object(value: dict[str, Any], schema: dict[str, Any], resolve: ResolveReference, budget: Budget) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if is_object(properties := schema.get("properties")):
        budget.spend(len(properties) >> 3)
        for name, below in properties.items():
            if name in value and (member := fill_defaults(value[name], below, resolve, budget)) is not value[name]:
                changed[name] = member
    for name, table in _required_tables(schema):
        if name not in value and (found := _default(table, resolve, budget)):
            changed[name] = _copy(found[0], budget)
    return {**value, **changed} if changed else value


def _list(value: list[Any], item: dict[str, Any], resolve: ResolveReference, budget: Budget) -> list[Any]:
    members = [fill_defaults(member, item, resolve, budget) for member in value]
    return members if any(new is not old for new, old in zip(members, value, strict=True)) else value


def _required_tables(schema: Any) -> list[tuple[str, dict[str, Any]]]:
    """The required properties of this place, each with its schema."""
    if not is_object(schema) or not is_object(properties := schema.get("properties")):
        return []
    names = schema.get("required")
    known = [name for name in names if isinstance(name, str) and name in properties] if is_array(names) else []
    return [(name, table) for name in known if is_object(table := properties[name])]


def _default(schema: Any, resolve: ResolveReference, budget: Budget) -> list[Any]:
    """The default of a schema, if it has one: its own, or else that of what it refers to.

    Some generators write a schema that is used twice only once, and refer to it.
    """
    budget.descend()
    found: list[Any] = []
    if is_object(schema):
        parts = schema.get("allOf")
        others = [
            *([resolve(schema["$ref"])] if isinstance(schema.get("$ref"), str) else []),
            *(parts if is_array(parts) else []),
        ]
        found = [schema["default"]] if "default" in schema else []
        for other in others:
            found = found or _default(other, resolve, budget)
    budget.depth += 1
    return found


def _copy(default: Any, budget: Budget) -> Any:
    """Of its own, and paid for by its size: a default is the server's, and a list may ask for it thousands of times."""
    text = msgspec.json.encode(default)
    budget.spend(1 + (len(text) >> 4))
    return msgspec.json.decode(text)


MAX_BYTES = 256 * 1024
"""The longest text of a schema, in bytes."""
MAX_NODES = 10_000
"""How many schemas a schema may contain."""
MAX_PATTERNS = 32 * 1024
"""Characters of all different patterns of a schema."""

_INDEX = re.compile(r"[0-9]{1,9}")


class Schema:
    """A schema that can be used. Checking a value takes at most some tens of milliseconds, whatever both are."""

    __slots__ = ("_fill", "_root")

    def __init__(self, root: Check, fill: Callable[[Any, Budget], Any] | None = None) -> None:
        self._root = root
        self._fill = fill

    @classmethod
    def compile(cls, schema_text: str, *, thorough: bool = False) -> Schema:
        """Raise InvalidParams for what is not a schema, is too large, refers to elsewhere or round in circles.

        `thorough`: `problems` lists all that is wrong with a value, and not the first thing alone.
        """
        if len(schema_text) > MAX_BYTES:
            raise InvalidParamsError(f"the schema is longer than {MAX_BYTES:,} bytes")
        try:
            document = msgspec.json.decode(schema_text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            raise InvalidParamsError("the schema is not JSON that can be read") from None
        compiler = _Compiler(document, _ThoroughNode if thorough else _Node)
        root = compiler.compile()

        def fill(value: Any, budget: Budget) -> Any:
            return fill_defaults(value, document, compiler.resolve, budget)

        return cls(root, fill if compiler.has_defaults() else None)

    def filled(self, value: Any) -> Any:
        """The value with the defaults of required properties that it leaves out; itself where there is nothing to add.

        InvalidParams where that would take too long. To be validated afterwards.
        """
        return value if self._fill is None else self._fill(value, Budget())

    def validate(self, value: Any) -> None:
        """Raise InvalidParams with the path of the first wrong value and what was expected there."""
        problem = self._root(value, Budget())
        if problem is not None:
            raise InvalidParamsError(str(problem))

    def problems(self, value: Any) -> list[str]:
        """Up to `MAX_PROBLEMS` wrong values of a thorough schema, each with its path and what was expected there.

        Of alternatives none of which fits, the problems of the nearest. InvalidParams where checking takes too long.
        """
        found = self._root(value, Budget(max_problems=MAX_PROBLEMS))
        problems = () if found is None else (found, *found.others)
        return list(dict.fromkeys(map(str, problems)))[:MAX_PROBLEMS]


class _Node:
    """One place of a schema. References share nodes, so a schema may contain itself."""

    __slots__ = ("_compiler", "checks", "keywords", "same_value")

    def __init__(self, compiler: _Compiler, keywords: Mapping[str, Any]) -> None:
        self._compiler = compiler
        self.keywords = keywords
        self.checks: tuple[Check, ...] = ()
        self.same_value: list[_Node] = []
        """The nodes that this one asks about the value it was given itself."""

    def __call__(self, value: Any, budget: Budget) -> Problem | None:
        budget.descend()
        for check in self.checks:
            problem = check(value, budget)
            if problem is not None:
                break
        else:
            problem = None
        budget.depth += 1
        return problem

    def below(self, schema: Any) -> Check:
        return self._compiler.node(schema)

    def beside(self, schema: Any) -> Check:
        node = self._compiler.node(schema)
        self.same_value.append(node)
        return node

    def target(self, reference: str) -> Check:
        return self.beside(self._compiler.resolve(reference))

    def pattern(self, source: Any) -> Pattern:
        return self._compiler.pattern(source)

    def refuse(self, why: str) -> NoReturn:
        raise _unusable_schema(why)


class _ThoroughNode(_Node):
    """A place that goes on after the first problem, up to as many as the budget asks for."""

    __slots__ = ()

    def __call__(self, value: Any, budget: Budget) -> Problem | None:
        budget.descend()
        found: Problem | None = None
        for check in self.checks:
            if (problem := check(value, budget)) is not None:
                found = problem.after(found)
                if budget.is_enough(found):
                    break
        budget.depth += 1
        return found


def _unusable_schema(why: str) -> InvalidParamsError:
    return InvalidParamsError(f"the schema cannot be used: {why}")


def _never(value: Any, budget: Budget) -> Problem | None:
    return Problem("nothing", json_type(value))


class _Compiler:
    """Makes nodes first and fills them afterwards, one by one: however deep a schema, nothing recurses."""

    __slots__ = ("_document", "_node_type", "_nodes", "_pattern_room", "_patterns", "_unfilled")

    def __init__(self, document: Any, node_type: type[_Node]) -> None:
        self._document = document
        self._node_type = node_type
        self._nodes: dict[int, _Node] = {}
        self._unfilled: list[_Node] = []
        self._patterns: dict[str, Pattern] = {}
        self._pattern_room = MAX_PATTERNS

    def compile(self) -> Check:
        root = self.node(self._document)
        while self._unfilled:
            node = self._unfilled.pop()
            built = (build(node, node.keywords[name]) for name, build in BUILDERS.items() if name in node.keywords)
            node.checks += tuple(check for check in built if check is not None)
        try:
            graphlib.TopologicalSorter({node: node.same_value for node in self._nodes.values()}).prepare()
        except graphlib.CycleError:
            raise _unusable_schema("a reference leads back to itself without going into the value") from None
        return root

    def has_defaults(self) -> bool:
        """Whether any part of the document requires a property that has a default."""
        return any(has_defaults(node.keywords) for node in self._nodes.values())

    def node(self, schema: Any) -> _Node:
        """The node of a schema; the same for the same place in the document."""
        if isinstance(schema, bool):
            node = self._node_type(self, {})
            node.checks = () if schema else (_never,)
            return node
        if not is_object(schema):
            raise _unusable_schema("a part of it is neither an object nor true or false")
        node = self._nodes.get(id(schema))
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                raise _unusable_schema(f"it has more than {MAX_NODES:,} parts")
            node = self._nodes[id(schema)] = self._node_type(self, schema)
            self._unfilled.append(node)
        return node

    def pattern(self, source: Any) -> Pattern:
        """The pattern of a source, read once for each schema."""
        if not isinstance(source, str):
            raise _unusable_schema("a pattern is not a text")
        pattern = self._patterns.get(source)
        if pattern is None:
            self._pattern_room -= len(source)
            if self._pattern_room < 0:
                raise _unusable_schema(f"its patterns are longer than {MAX_PATTERNS:,} characters")
            pattern = self._patterns[source] = Pattern(source)
        return pattern

    def resolve(self, reference: str) -> Any:
        """The schema at a JSON pointer of this document."""
        head, *steps = reference.split("/")
        if head != "#":
            raise _unusable_schema(f"{reference[:80]!r} is not inside it")
        found = self._document
        for step in steps:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if is_object(found) and name in found:
                found = found[name]
            elif is_array(found) and _INDEX.fullmatch(name) and int(name) < len(found):
                found = found[int(name)]
            else:
                raise _unusable_schema(f"there is no {reference[:80]!r} in it")
        return found
