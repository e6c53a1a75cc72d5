"""A form that an MCP server asks a person to fill in: which field is edited, what was chosen, what is wrong where.

Pure: takes keys, returns rows, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.display_text import visible
from tertulia.terminal.approvals.folding import fold_line
from tertulia.terminal.approvals.form_fields import ElicitationField, FieldProblem, fields_of
from tertulia.terminal.panels.lines import Part

_TYPED = ("text", "number", "integer")


class ElicitationForm:
    """The fields of one elicitation, with their values."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.fields = fields_of(schema)
        self.at = 0
        """The index of the field that is edited."""
        self.option = 0
        """In a field with several options: the index of the one that Space toggles."""
        self._schema = schema
        self._values: dict[str, Any] = {field.name: _default(field) for field in self.fields}
        self._problems: dict[str, str] = {}

    @property
    def field(self) -> ElicitationField | None:
        """The field that keys are for; None: nothing is asked for."""
        return self.fields[self.at] if self.fields else None

    @property
    def is_typed(self) -> bool:
        """Whether the field is filled in by typing."""
        return self.field is not None and self.field.kind in _TYPED

    @property
    def typed_text(self) -> str:
        """What stands in the field, to be edited."""
        value = None if self.field is None else self._values[self.field.name]
        return "" if value is None else str(value)

    def move(self, step: int) -> None:
        """Go to the next field or the one before."""
        if self.fields:
            self.at = min(max(self.at + step, 0), len(self.fields) - 1)
            self.option = 0

    def type(self, text: str) -> bool:
        """Take the typed text as the value of the field; False: it does not fit, and the field says why."""
        field = self.field
        if field is None:
            return True
        try:
            self._values[field.name] = field.parse(text)
        except FieldProblem as problem:
            self._problems[field.name] = str(problem)
            return False
        self._problems.pop(field.name, None)
        return True

    def choose(self, step: int) -> None:
        """Go to the next option or the one before; a field with one value takes it."""
        field = self.field
        if field is None or self.is_typed:
            return
        count = len(field.options) or 2
        if field.kind == "choices":
            self.option = (self.option + step) % count
            return
        values = [option.value for option in field.options] or [True, False]
        value = self._values[field.name]
        at = values.index(value) + step if value in values else (0 if step > 0 else -1)
        self._values[field.name] = values[at % count]
        self._problems.pop(field.name, None)

    def toggle(self) -> None:
        """Choose the option under the cursor, or take it back; in other fields the next value."""
        field = self.field
        if field is None or field.kind != "choices":
            self.choose(1)
            return
        if not field.options:
            return
        chosen = cast("list[Any]", self._values[field.name] or [])
        value = field.options[self.option].value
        remaining = [one for one in chosen if one != value] if value in chosen else [*chosen, value]
        order = [option.value for option in field.options]
        self._values[field.name] = sorted(remaining, key=order.index)
        self._problems.pop(field.name, None)

    def clear(self) -> None:
        """Leave the field empty again."""
        if self.field is not None:
            self._values[self.field.name] = None

    def content(self) -> dict[str, Any] | None:
        """The values to send; None: some do not fit, and the cursor moves to the first such field."""
        self._problems.clear()
        for at, field in reversed(list(enumerate(self.fields))):
            try:
                field.check(self._values[field.name])
            except FieldProblem as problem:
                self._problems[field.name] = str(problem)
                self.at = at
        content = {name: value for name, value in self._values.items() if value is not None}
        if not self._problems and (problem := _whole_problem(self._schema, content)):
            self._problems[self.fields[self.at].name if self.fields else ""] = problem
        return None if self._problems else content

    def rows(self, width: int) -> list[list[Part]]:
        """Each field with its value, what it wants, and what is wrong with it."""
        rows: list[list[Part]] = []
        for at, field in enumerate(self.fields):
            here = at == self.at
            mark = "› " if here else "  "
            rows.append([(mark, "bold"), (f"{visible(field.label)}  ", "bold" if here else ""), *self._value(field)])
            texts = [field.hint] if not field.help else [visible(field.help), field.hint]
            if here:
                rows += [[("    ", ""), (row, "dim")] for text in texts for row in fold_line(text, width - 4)]
            if problem := self._problems.get(field.name):
                rows += [[("    ", ""), (row, "bold red")] for row in fold_line(f"! {problem}", width - 4)]
        if problem := self._problems.get(""):
            rows.append([(f"! {problem}", "bold red")])
        return rows

    def _value(self, field: ElicitationField) -> list[Part]:
        value = self._values[field.name]
        if field.kind == "choices":
            chosen = cast("list[Any]", value or [])
            return [
                (f"[{'x' if option.value in chosen else ' '}] {visible(option.label)}  ", self._option_style(field, at))
                for at, option in enumerate(field.options)
            ]
        if value is None:
            return [("—", "dim")]
        if field.kind == "yes_no":
            return [("yes" if value else "no", "")]
        if field.kind == "choice":
            at = next((at for at, option in enumerate(field.options) if option.value == value), 0)
            return [(visible(field.options[at].label), ""), (f"  {at + 1} of {len(field.options)}", "dim")]
        return [(visible(str(value)), "")]

    def _option_style(self, field: ElicitationField, at: int) -> str:
        return "underline" if field is self.field and at == self.option else ""


def _default(field: ElicitationField) -> Any:
    """The default of a field, if a person could have chosen it."""
    if field.default is None:
        return None
    if field.kind in ("choice", "choices"):
        values = [option.value for option in field.options]
        default: Any = field.default
        if field.kind == "choice":
            return default if default in values else None
        chosen = cast("list[Any]", default) if isinstance(default, list) else []
        return [value for value in chosen if value in values]
    return field.default


def _whole_problem(schema: Mapping[str, Any], content: dict[str, Any]) -> str:
    """The schema's objection to the values together, as text; empty where they fit. Single fields check less."""
    from tertulia.schema.schema import Schema

    try:
        Schema.compile(msgspec.json.encode(schema).decode()).validate(content)
    except InvalidParamsError as error:
        return visible(error.message)
    return ""
