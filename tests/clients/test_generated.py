"""Issue 19, item 13: the typed clients are what the schema says, and the schema is one that others make types of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from clients.generate import (
    PYTHON,
    TYPESCRIPT,
    python_source,
    python_type,
    read_schema,
    typescript_source,
    typescript_type,
)

from tests.clients.reaching import DEADLINE_S, ROOT, node_tool
from tests.conformance.suite import NODE
from tests.tables import each_row


def test_the_clients_are_those_of_the_schema_that_is_checked_in() -> None:
    """Renew them with `python clients/generate.py`."""
    schema = read_schema()
    assert PYTHON.read_text(encoding="utf-8") == python_source(schema)
    assert TYPESCRIPT.read_text(encoding="utf-8") == typescript_source(schema)


def test_there_is_a_method_for_every_operation_and_a_type_for_every_event() -> None:
    schema = read_schema()
    python, typescript = python_source(schema), typescript_source(schema)
    for method in schema["operations"]:
        assert f'self.call("{method}", params)' in python
        assert f'this.call("{method}", params)' in typescript
    for name in schema["events"]:
        assert f'Literal["{name}"]' in python
        assert f'type: "{name}";' in typescript


@each_row(
    ("definition", "python", "typescript"),
    [
        ({"$ref": "#/$defs/X"}, "X", "X"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None", "string | null"),
        ({"enum": ["a", 1, None]}, 'Literal["a", 1, null]', '"a" | 1 | null'),
        ({"const": "a"}, 'Literal["a"]', '"a"'),
        ({"type": ["integer", "null"]}, "int | None", "number | null"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]", "Array<number>"),
        ({"type": "array"}, "list[Any]", "Array<unknown>"),
        ({"type": "object"}, "dict[str, Any]", "Record<string, unknown>"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]", "Record<string, boolean>"),
        ({}, "Any", "unknown"),
    ],
)
def test_a_type_is_spelled_as_the_language_has_it(definition: dict[str, object], python: str, typescript: str) -> None:
    assert (python_type(definition).replace("None]", "null]"), typescript_type(definition)) == (python, typescript)


@pytest.mark.slow
def test_json_schema_to_typescript_makes_real_types_of_it(tmp_path: Path) -> None:
    """It gave `interface Tertulia {[k: string]: unknown}`."""
    program, compiler = node_tool("json-schema-to-typescript/dist/src/cli.js"), node_tool("typescript/bin/tsc")
    made = tmp_path / "made.ts"
    schema = ROOT / "docs/schema.json"
    subprocess.run([NODE, program, schema, made], check=True, timeout=DEADLINE_S, capture_output=True)
    text = made.read_text()
    assert "export interface Tertulia {\n  operations: Operations;\n  event: AnyEvent;\n}" in text
    use = tmp_path / "use.ts"
    use.write_text(
        'import type { AnyEvent, Tertulia } from "./made";\n'
        'export type Reply = Tertulia["operations"]["conversation/message"]["result"];\n'
        'export const text = (event: AnyEvent) => (event.type === "agent_message" ? event.data.text.length : 0);\n'
    )
    done = subprocess.run(
        [NODE, compiler, "--noEmit", "--strict", use], check=False, timeout=DEADLINE_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
