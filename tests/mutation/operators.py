"""The fixed ways in which a function is made wrong, and the name that each of them keeps when code moves.

A mutant is known by stage, function, operator and ordinal (the how-manieth place of that operator in that function),
never by a line: the same mutant is found again after lines, files or variables have changed. Its text says what stood
there, so that a function whose places were reordered is matched by text first.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_REMOVABLE = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of one function, made wrong in one way."""

    stage: str
    function: str
    """Its qualified name, without the module."""
    operator: str
    ordinal: int
    text: str
    """What stood there, as `ast.unparse` writes it."""
    path: str
    """From the package's folder."""
    line: int
    last_line: int

    @property
    def name(self) -> str:
        return f"{self.stage}:{self.function}:{self.operator}:{self.ordinal}"


def mutants(package: Path, stages: tuple[str, ...]) -> Iterator[Mutant]:
    """Every mutant of these stages, in the order of the files."""
    for stage in stages:
        for file in sorted((package / stage).rglob("*.py")):
            tree = ast.parse(file.read_text())
            for function, operator, ordinal, node, _ in _places(tree):
                shown = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
                path, line = str(file.relative_to(package)), shown.lineno
                last_line = shown.end_lineno or line
                yield Mutant(stage, function, operator, ordinal, ast.unparse(shown), path, line, last_line)


def mutated(source: str, mutant: Mutant) -> str:
    """The source with this mutant in it."""
    tree = ast.parse(source)
    for function, operator, ordinal, _, change in _places(tree):
        if (function, operator, ordinal) == (mutant.function, mutant.operator, mutant.ordinal):
            change()
            return ast.unparse(ast.fix_missing_locations(tree))
    raise LookupError(mutant.name)


_Place = tuple[str, str, int, ast.expr | ast.stmt, Callable[[], None]]


def _places(tree: ast.Module) -> Iterator[_Place]:
    """Function, operator, ordinal, what stands there, and how it is made wrong in `tree`."""
    for function, node in _functions(tree, ""):
        seen: Counter[str] = Counter()
        for parent, field, index, child in _below(node):
            for operator, replacement in _wrong(child):
                yield function, operator, seen[operator], child, _setter(parent, field, index, replacement)
                seen[operator] += 1


def _setter(parent: ast.AST, field: str, index: int | None, replacement: ast.AST) -> Callable[[], None]:
    def put() -> None:
        if index is None:
            setattr(parent, field, replacement)
        else:
            getattr(parent, field)[index] = replacement

    return put


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(child, ast.ClassDef):
                yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _below(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    """Every node of a function's own body with the place where it stands; annotations, decorators and inner functions
    are none of it."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "args", "type_comment"} and not isinstance(
            node, ast.Call
        ):
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.JoinedStr):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield node, field, index, child
            if isinstance(child, ast.AST):
                yield from _below(child)


def _wrong(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """The operators that apply to a node, each with the node that takes its place."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield "comparison", _changed(node, ops=[_COMPARISONS[type(operator)]()])
        case ast.BoolOp(op=operator):
            yield "boolean", _changed(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation", operand
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "condition", _changed(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC:
            yield "arithmetic", _changed(node, op=_ARITHMETIC[type(operator)]())
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return", ast.Return(ast.Constant(None))
        case _:
            pass
    if _removable(node):
        yield "removed", ast.Pass()


def _removable(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, _REMOVABLE)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for field, value in fields.items():
        setattr(other, field, value)
    return other


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
