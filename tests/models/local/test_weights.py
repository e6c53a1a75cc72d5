"""Which weights there are, where they lie, and whether they could run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import model_facts
from tertulia.models.local.weights import WEIGHTS, can_run, find_weights, first_usable_weights
from tests.models.local_staging import FAKE, weights_of
from tests.tables import each_row

SMOLLM2 = WEIGHTS[0]


def test_weights_are_found_by_name() -> None:
    assert find_weights("smollm2") is SMOLLM2
    assert SMOLLM2.model == "local/smollm2"


@each_row("name", ["", "SmolLM2", "../smollm2", "x" * 1000])
def test_a_name_that_nobody_has_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InvalidParamsError, match="there is smollm2") as refusal:
        find_weights(name)
    assert len(refusal.value.message) < 150


def test_the_catalogue_knows_the_same_window() -> None:
    for weights in WEIGHTS:
        assert model_facts(weights.name).context_window == weights.context_window


def test_only_a_file_of_the_right_size_counts_as_pulled(tmp_path: Path) -> None:
    weights = weights_of(5)
    path = weights.path(tmp_path)
    assert not weights.is_pulled(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b"1234")
    assert not weights.is_pulled(tmp_path)
    path.write_bytes(b"12345")
    assert weights.is_pulled(tmp_path)


def test_a_home_that_is_no_directory_has_none(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert not SMOLLM2.is_pulled(tmp_path / "home")


def test_the_embedded_model_is_there_when_it_is_pulled_and_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, weights = replace(SMOLLM2, name="other", file_name="other.gguf"), weights_of(5)
    monkeypatch.setattr("tertulia.models.local.weights.WEIGHTS", (other, weights))
    weights.path(tmp_path).parent.mkdir()
    monkeypatch.setattr("tertulia.models.local.weights.can_run", lambda: True)
    assert first_usable_weights(tmp_path) is None
    weights.path(tmp_path).write_bytes(b"12345")
    assert first_usable_weights(tmp_path) is weights
    monkeypatch.setattr("tertulia.models.local.weights.can_run", lambda: False)
    assert first_usable_weights(tmp_path) is None


def test_whether_it_can_run_is_found_out_without_importing_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.modules", {})
    assert not can_run()
    monkeypatch.setattr("sys.path", [str(FAKE)])
    assert can_run()
    import sys

    assert "xllamacpp" not in sys.modules
