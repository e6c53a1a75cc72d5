"""Templates: gaps are filled and nothing else happens."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.context.templates import load_template, render_template
from tertulia.errors import InvalidParamsError, NotFoundError
from tests.deadlines import HANG_S
from tests.tables import each_row
from tests.wheel import ROOT, unpacked

VARIABLES = {
    "core-identity": {"agentName", "archetype", "archetypeDescription", "backendType", "workspacePolicy"},
    "canvas-context": set(),
    "tool-instructions": {"toolList", "token"},
    "tools-at-hand": {"toolList"},
}


@each_row("name", VARIABLES)
def test_a_template_has_exactly_the_gaps_of_the_design(name: str) -> None:
    """S001-28, S001-30."""
    template = load_template(name)
    assert template == load_template(f"{name}.md")
    marked = {variable: f"<{variable}>" for variable in VARIABLES[name]}
    rendered = render_template(template, marked)
    assert all(value in rendered for value in marked.values())
    assert "{{" not in rendered
    assert render_template(template, {}).count("<") == 0


def test_a_template_that_is_not_there_is_an_error() -> None:
    """S001-28."""
    with pytest.raises(NotFoundError, match="'nonsense'; there are canvas-context, core-identity, tool"):
        load_template("nonsense")
    with pytest.raises(NotFoundError, match=r"did you mean core-identity\?"):
        load_template("core-identitty")


@each_row(
    "name",
    ["", ".", "..", "../prompt/prompt", "/etc/passwd", "a/b", "a\\b", "core-identity\0", "\0", "core-identity.md.md",
     "core-identity\n", ".md", "x" * 300, "..%2fprompt"],
    ids=lambda name: repr(name)[:20],
)  # fmt: skip
def test_a_name_cannot_leave_the_folder(name: Any) -> None:
    """S001-28, X-52."""
    with pytest.raises(InvalidParamsError, match="name of a template"):
        load_template(name)


@each_row(
    ("template", "variables", "expected"),
    [
        ("", {}, ""),
        ("no gap", {"x": "1"}, "no gap"),
        ("{{x}} and {{x}}", {"x": "1"}, "1 and 1"),
        ("{{ x }}", {"x": "1"}, "1"),
        ("a\n{{x}}\nb", {"x": "1\n2"}, "a\n1\n2\nb"),
        ("[{{missing}}]", {}, "[]"),
        ("[{{}}]", {}, "[]"),
        ("{{x}}", {"x": "{{y}}", "y": "2"}, "{{y}}"),
        ("{{x}}{{y}}", {"x": "{{", "y": "z}}", "z": "3"}, "{{z}}"),
        ("{{{x}}}", {"x": "1"}, "{1}"),
        ("{{ {{x}} }}", {"x": "1"}, "{{ 1 }}"),
        ("{{x", {"x": "1"}, "{{x"),
        ("{x}", {"x": "1"}, "{x}"),
        ('{"a": {"b": 1}}', {}, '{"a": {"b": 1}}'),
        (r"{{x}}", {"x": r"\1\g<0>\n"}, r"\1\g<0>\n"),
        ("{{x.__class__}}", {"x": "1"}, ""),
        ("{{x[0]}}{{x!r}}{{x|safe}}{{7*7}}", {"x": "1"}, ""),
        ("{% for x in y %}{# c #}", {"y": "1"}, "{% for x in y %}{# c #}"),
    ],
)
def test_a_gap_is_filled_once_and_nothing_is_evaluated(template: str, variables: dict[str, str], expected: str) -> None:
    """S001-29, X-52, HARDENING C19."""
    assert render_template(template, variables) == expected


@given(st.text("{}x. \n", max_size=30), st.text("{}x", max_size=6))
def test_whatever_the_braces_what_is_put_in_is_never_looked_at_again(template: str, value: str) -> None:
    """S001-29, HARDENING C19."""
    mark = "§"
    assert render_template(template, {"x": mark}).replace(mark, value) == render_template(template, {"x": value})


def test_a_variable_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match="'x' must be a text, not int"):
        render_template("{{x}}", {"x": 5})  # type: ignore[dict-item]


@each_row("unit", ["{", "{{", "{{x", "{{x}}", "}}", "{{ " + "y" * 1000, "{ {"])
def test_ten_megabytes_take_linear_time(unit: str) -> None:
    """HARDENING C19."""
    template = unit * (10_000_000 // len(unit))
    began = time.thread_time()
    render_template(template, {"x": "1"})
    assert time.thread_time() - began < 15


@pytest.mark.slow
def test_the_templates_are_in_the_wheel_byte_for_byte(tmp_path: Path) -> None:
    """S001-31: read from what is installed, not from the source tree."""
    installed = unpacked(tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tertulia\n"
        "assert tertulia.__file__.startswith(sys.argv[1]), tertulia.__file__\n"
        "sys.stdout.buffer.write('\\0'.join(map(tertulia.load_template, sys.argv[2:])).encode())"
    )
    run = [sys.executable, "-c", program, str(installed), *VARIABLES]
    read = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, timeout=HANG_S).stdout
    sources = [(ROOT / "src/tertulia/context" / f"{name}.md").read_bytes() for name in VARIABLES]
    assert read.split(b"\0") == sources
