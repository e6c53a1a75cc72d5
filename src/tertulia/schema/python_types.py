"""Python types as JSON Schema, and JSON values as objects of these types.

What msgspec can describe (dataclasses, Structs, TypedDicts, numbers, lists, …) it describes and converts. Models of
pydantic, which it does not know, describe and validate themselves, wherever in a type they stand. pydantic is
imported nowhere here: a type of it can only come from a program that has imported it.
"""

from __future__ import annotations

import sys
from typing import Any, TypeGuard, TypeVar, cast

import msgspec

T = TypeVar("T")
_REFERENCE = "#/$defs/"


class UndescribableTypeError(TypeError):
    """A type that no JSON Schema can describe; the text says in our words why."""


def describe_type(annotation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of a type, and the definitions that it refers to under `#/$defs/`.

    UndescribableTypeError where there is none, NameError where a name in it is not known.
    """
    models = _ModelDefinitions()
    try:
        (schema,), definitions = msgspec.json.schema_components(
            [annotation], schema_hook=models.refer, ref_template=_REFERENCE + "{name}"
        )
    except UndescribableTypeError:
        raise
    except TypeError:
        raise UndescribableTypeError("a part of it has no JSON form, or two parts have the same") from None
    if taken := definitions.keys() & models.definitions.keys():
        raise UndescribableTypeError(f"two different types are called {', '.join(sorted(taken))}")
    return schema, {**definitions, **models.definitions}


def describe_object(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of a type with the object itself at the top, as APIs want it, and what it refers to beside."""
    schema, definitions = describe_type(annotation)
    while (reference := schema.get("$ref")) is not None:
        name = reference.removeprefix(_REFERENCE)
        schema = definitions[name] if _refers_to(definitions, reference) else definitions.pop(name)
    schema = {name: value for name, value in schema.items() if name != "title"}
    return {**schema, "$defs": definitions} if definitions else schema


def convert_value(value: Any, annotation: type[T]) -> T:
    """A JSON value as an object of the type; ValueError says where it does not fit."""
    # `convert` never answers with anything else than the type; msgspec's own signature cannot say so for a TypeVar.
    return msgspec.convert(value, annotation, strict=True, dec_hook=_convert_model)


def is_pydantic_model(annotation: object) -> TypeGuard[type[Any]]:
    """Whether it is a model class of pydantic. False where no program has imported pydantic: there is none then."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return isinstance(base, type) and isinstance(annotation, type) and issubclass(annotation, base)


def _convert_model(annotation: type[Any], value: Any) -> Any:
    """For msgspec, where it meets a type that is not its own."""
    if not is_pydantic_model(annotation):
        raise NotImplementedError(f"{annotation!r} cannot be made from JSON")
    model = cast("Any", annotation)
    try:
        # By the rules for JSON, which differ from those for Python objects: dates, bytes and sets are texts and lists.
        return model.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        # Imported here: most values fit.
        from tertulia.schema.model_errors import explain_model_error

        raise ValueError(explain_model_error(error)) from None


class _ModelDefinitions:
    """The definitions of pydantic models, collected while msgspec describes a type."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[type[Any], str] = {}

    def refer(self, annotation: type[Any]) -> dict[str, Any]:
        """A reference to a model's definition; an error for any other type, which msgspec does not know either."""
        if not is_pydantic_model(annotation):
            raise UndescribableTypeError(f"{annotation.__name__} has no JSON form")
        name = self._names.get(annotation)
        if name is None:
            name = self._names[annotation] = f"{annotation.__name__}_{len(self._names) + 1}"
            # Two models may use the same names for their parts: each model's parts have its own name in front.
            inner = f"{_REFERENCE}{name}_{{model}}"
            schema: dict[str, Any] = cast("Any", annotation).model_json_schema(ref_template=inner)
            parts = schema.pop("$defs", {})
            self.definitions[name] = schema
            self.definitions |= {f"{name}_{part}": definition for part, definition in parts.items()}
        return {"$ref": f"{_REFERENCE}{name}"}


def _refers_to(value: Any, reference: str) -> bool:
    """Whether a schema has this reference in it: then what it names must stay where it is."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return table.get("$ref") == reference or any(_refers_to(part, reference) for part in table.values())
    return isinstance(value, list) and any(_refers_to(part, reference) for part in cast("list[Any]", value))
