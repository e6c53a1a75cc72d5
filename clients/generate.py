"""Writes the typed parts of both clients from the schema of the protocol: `python clients/generate.py`.

The schema is `docs/schema.json`, which `tertulia schema` prints. What is written here is checked in, and a test says
when it is stale. Not here: the connections, which are written by hand beside it.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).parent
SCHEMA = HERE.parent / "docs" / "schema.json"
PYTHON = HERE / "python" / "tertulia_client" / "protocol.py"
TYPESCRIPT = HERE / "typescript" / "src" / "protocol.ts"

Json = dict[str, Any]
Spell = Callable[[Json], str]
_SKIPPED = frozenset({"Operations", "Event", "EventData"})
"""Operations become methods; the envelope without its data is in no one's way, and of no use."""


def read_schema() -> Json:
    """The schema that is checked in."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def _types(schema: Json) -> dict[str, Json]:
    return {name: definition for name, definition in schema["$defs"].items() if name not in _SKIPPED}


def _words(method: str) -> list[str]:
    return re.split(r"[/_]", method)


def _only_optional(schema: Json, reference: Json) -> bool:
    return not schema["$defs"][reference["$ref"].rpartition("/")[2]].get("required")


def _parts(definition: Json, spell: Spell) -> list[str]:
    """The members of a union, each once."""
    return list(dict.fromkeys(spell(part) for part in definition.get("anyOf", definition.get("oneOf", ()))))


# ---- Python


def python_type(definition: Json) -> str:
    """How Python spells a type."""
    if "$ref" in definition:
        return definition["$ref"].rpartition("/")[2]
    if "anyOf" in definition or "oneOf" in definition:
        return " | ".join(_parts(definition, python_type))
    if "const" in definition or "enum" in definition:
        values = definition.get("enum", [definition.get("const")])
        return f"Literal[{', '.join(json.dumps(value) for value in values)}]"
    if isinstance(definition.get("type"), list):
        return " | ".join(python_type({**definition, "type": kind}) for kind in definition["type"])
    match definition.get("type"):
        case "array":
            return f"list[{python_type(definition.get('items', {}))}]"
        case "object":
            return f"dict[str, {python_type(_values(definition))}]"
        case kind:
            return _PYTHON_TYPES.get(kind or "", "Any")


_PYTHON_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def _values(definition: Json) -> Json:
    values = definition.get("additionalProperties")
    return cast("Json", values) if isinstance(values, dict) else {}


def _python_definition(name: str, definition: Json) -> str:
    if definition.get("type") != "object" or "properties" not in definition:
        return f"{name} = {python_type(definition)}\n"
    lines = [f"class {name}(TypedDict):", f'    """{_sentence(definition, name)}"""', ""]
    required = definition.get("required", ())
    for member, kind in definition["properties"].items():
        if not member.isidentifier() or keyword.iskeyword(member):
            raise ValueError(f"{name}.{member} is no name in Python")
        spelled = python_type(kind)
        lines.append(f"    {member}: {spelled if member in required else f'NotRequired[{spelled}]'}")
    return "\n".join(lines) + "\n"


def _sentence(definition: Json, name: str) -> str:
    text = " ".join(definition.get("description", name).split())
    return text.replace("\\", "\\\\").replace('"""', "'''")


def python_source(schema: Json) -> str:
    """The whole of `protocol.py`."""
    types = _types(schema)
    classes = [name for name, definition in types.items() if "properties" in definition]
    aliases = [name for name in types if name not in classes]
    definitions = [_python_definition(name, types[name]) for name in (*classes, *aliases)]
    methods = [_python_method(method, operation) for method, operation in schema["operations"].items()]
    return _PYTHON_HEAD + "\n\n".join(definitions) + _PYTHON_CLASS + "\n".join(methods)


_PYTHON_HEAD = '''"""The types of the protocol, and a method for each operation. Made by clients/generate.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, Unpack


'''
_PYTHON_CLASS = '''

class GeneratedClient:
    """Every operation as a method with typed parameters and a typed result."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result."""
        raise NotImplementedError

'''


def _python_method(method: str, operation: Json) -> str:
    result = python_type(operation["result"])
    head = f"    async def {'_'.join(_words(method))}("
    return (
        f"{head}self, **params: Unpack[{python_type(operation['params'])}]) -> {result}:\n"
        f'        """`{method}`"""\n'
        f'        return await self.call("{method}", params)\n'
    )


# ---- TypeScript


def typescript_type(definition: Json) -> str:
    """How TypeScript spells a type."""
    if "$ref" in definition:
        return definition["$ref"].rpartition("/")[2]
    if "anyOf" in definition or "oneOf" in definition:
        return " | ".join(_parts(definition, typescript_type))
    if "const" in definition or "enum" in definition:
        return " | ".join(json.dumps(value) for value in definition.get("enum", [definition.get("const")]))
    if isinstance(definition.get("type"), list):
        return " | ".join(typescript_type({**definition, "type": kind}) for kind in definition["type"])
    match definition.get("type"):
        case "array":
            return f"Array<{typescript_type(definition.get('items', {}))}>"
        case "object":
            return f"Record<string, {typescript_type(_values(definition))}>"
        case kind:
            return _TYPESCRIPT_TYPES.get(kind or "", "unknown")


_TYPESCRIPT_TYPES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def _typescript_definition(name: str, definition: Json) -> str:
    comment = f"/** {_sentence(definition, name).replace('*/', '* /')} */\n"
    if definition.get("type") != "object" or "properties" not in definition:
        return f"{comment}export type {name} = {typescript_type(definition)};\n"
    required = definition.get("required", ())
    members = [
        f"  {member}{'' if member in required else '?'}: {typescript_type(kind)};\n"
        for member, kind in definition["properties"].items()
    ]
    return f"{comment}export interface {name} {{\n{''.join(members)}}}\n"


def typescript_source(schema: Json) -> str:
    """The whole of `protocol.ts`."""
    definitions = [_typescript_definition(name, definition) for name, definition in _types(schema).items()]
    operations = "".join(
        f'  "{method}": {{ params: {typescript_type(operation["params"])}; '
        f"result: {typescript_type(operation['result'])} }};\n"
        for method, operation in schema["operations"].items()
    )
    methods = "\n".join(_typescript_method(schema, name, operation) for name, operation in schema["operations"].items())
    return (
        "// The types of the protocol and a method for each operation. Written by clients/generate.py: do not edit.\n\n"
        + "\n".join(definitions)
        + f"\n/** Each operation by its name. */\nexport interface Operations {{\n{operations}}}\n"
        + _TYPESCRIPT_CLASS
        + methods
        + "}\n"
    )


_TYPESCRIPT_CLASS = """
/** Every operation as a method with typed parameters and a typed result. */
export abstract class GeneratedClient {
  /** Send a request and return its result. */
  abstract call<M extends keyof Operations>(
    method: M,
    params: Operations[M]["params"],
  ): Promise<Operations[M]["result"]>;

"""


def _typescript_method(schema: Json, method: str, operation: Json) -> str:
    first, *rest = _words(method)
    default = " = {}" if _only_optional(schema, operation["params"]) else ""
    params, result = typescript_type(operation["params"]), typescript_type(operation["result"])
    return (
        f"  /** `{method}` */\n"
        f"  {first}{''.join(word.capitalize() for word in rest)}"
        f"(params: {params}{default}): Promise<{result}> {{\n"
        f'    return this.call("{method}", params);\n'
        "  }\n"
    )


def main() -> None:
    """Write both files."""
    schema = read_schema()
    PYTHON.write_text(python_source(schema), encoding="utf-8")
    TYPESCRIPT.write_text(typescript_source(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
