"""`tertulia schema`: the JSON Schema of every operation and event, as this version speaks them."""

from __future__ import annotations

import sys

import click
import msgspec

from tertulia.cli.global_flags import global_flags
from tertulia.server.api_schema import schema_document

_MORE = """
\b
Examples:
  tertulia schema > tertulia.schema.json
  tertulia schema | jq '.operations | keys'
"""


@click.command("schema", epilog=_MORE)
@global_flags
@click.pass_obj
def command(flags: object) -> int:
    """Print the JSON Schema of all operations and events.

    Its root is a type with all operations and events, for programs that make types of it. For those that read it,
    `operations` has `params` and `result` of each, `events` the `data` of each, `event` their envelope.
    """
    sys.stdout.write(as_text())
    return 0


def as_text() -> str:
    """The schema as indented JSON, the same from run to run."""
    return msgspec.json.format(msgspec.json.encode(schema_document()), indent=2).decode() + "\n"
