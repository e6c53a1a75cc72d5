"""`session/board` over a wire: every cell that a board can have is typed in the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from tertulia.server.api_schema import schema_document
from tertulia.view.cells import Cell
from tests.tables import each_row
from tests.view.golden import CASES, read_case

DOCUMENT = schema_document()
BOARD = DOCUMENT["$defs"]["BoardAnswer"]["properties"]["board"]
VALIDATOR = jsonschema.Draft202012Validator({**BOARD, "$defs": DOCUMENT["$defs"]})


@each_row("path", CASES)
def test_the_board_of_every_golden_case_fits_the_schema(path: Path) -> None:
    VALIDATOR.validate(read_case(path)["board"])


def test_every_kind_of_cell_has_its_type_and_another_kind_is_refused() -> None:
    text = json.dumps(DOCUMENT["$defs"]["ConversationView"]["properties"]["cells"])
    for kind in get_args(Cell):
        assert f'"#/$defs/{kind.__name__}"' in text
    cell: dict[str, Any] = {"kind": "notice", "key": "n1", "ts": "", "level": "note", "text": "so"}
    VALIDATOR.validate({"conversations": {"root": {"id": "root", "cells": [cell]}}})
    for wrong in ({"kind": "dance"}, {"level": "loud"}, {"text": 1}, {"key": None}):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate({"conversations": {"root": {"id": "root", "cells": [{**cell, **wrong}]}}})
