"""Providers of other packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tertulia.context.injector import GROUP, SessionContextInjector, installed_providers

MODULE = """
class Weather:
    name = "weather"

def make():
    tides = Weather()
    tides.name = "tides"
    return tides

ready = Weather()
ready.name = "ready"
number = 5
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package with entry points of all kinds."""
    name = "tertulia_test_weather"
    (tmp_path / f"{name}.py").write_text(MODULE)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    kinds = {"d-class": "Weather", "c-function": "make", "b-object": "ready", "a-number": "number", "e-missing": "nope"}
    lines = [f"{key} = {name}:{value}" for key, value in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, "f-broken = tertulia_test_gone:x"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_providers_of_other_packages_are_found_and_failing_ones_left_out(package: str) -> None:
    """Issue 9: entry points `tertulia.providers`; S001-27."""
    found = installed_providers()
    assert package not in sys.modules, "looking for them imports nothing"
    injector = SessionContextInjector()
    problems = injector.register_each(found)
    assert injector.list_providers() == ["ready", "tides", "weather"]
    assert [problem.split("'")[1] for problem in problems] == ["a-number", "e-missing", "f-broken"]
    sys.modules.pop(package)


def test_where_none_is_installed_none_is_found() -> None:
    assert installed_providers() == []
