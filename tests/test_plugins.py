"""Plug-ins by entry point: what installed packages add, found by name, and nothing of it before that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tertulia
from tertulia import errors
from tertulia.package_loading import PackageError, PluginRegistry
from tertulia.session.settings import plugins
from tertulia.session.settings.settings import load_settings
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples/plugins").glob("*/pyproject.toml"))
MODULE = """
def wire(model, variables): return object()
def count(text: str) -> int:
    return len(text)
number = 5
"""
ENTRIES = {
    "tertulia.wires": {"odd": "wire", "five": "number", "openai": "wire"},
    "tertulia.tools": {"count": "count", "five": "number", "missing": "nope", "shared": "count"},
    "tertulia.executors": {"odd": "dict", "five": "number"},
}


def install(folder: Path, name: str, entries: dict[str, dict[str, str]]) -> None:
    (folder / f"{name}.py").write_text(MODULE)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{key} = {name}:{value}" for key, value in rows.items())
        for group, rows in entries.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "tertulia_test_one", ENTRIES)
    install(tmp_path, "tertulia_test_two", {"tertulia.tools": {"shared": "count"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind in ("wires", "tools", "executors"):
        monkeypatch.setattr(plugins, f"_{kind}", PluginRegistry(f"tertulia.{kind}"))


async def test_nothing_is_loaded_before_it_is_named() -> None:
    sys.modules.pop("tertulia_test_one", None)
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["hi"]))) as session:
        await session.root.message("hello")
        assert "tertulia_test_one" not in sys.modules
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]), tools=["count"])) as session:
        assert session.root.tools()[-1].name == "count"
        child = await session.open(shell_mode="none")
        assert child.tools()[-1].name == "count"


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("missing", "tertulia_test_one"),
        ("nowhere", "no installed package has 'nowhere'"),
        ("shared", "two plug-ins claim one name"),
        ("five", "neither a tool nor a function"),
    ],
)
async def test_a_tool_that_cannot_be_had_is_refused_by_name(name: str, because: str) -> None:
    with pytest.raises(errors.InvalidParamsError, match=because):
        async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]), tools=[name])):
            pass


@pytest.mark.parametrize(
    ("field", "value"), [("model", "odd/x"), ("model", "five/x"), ("backend", "plugin:odd"), ("backend", "plugin:five")]
)
async def test_a_broken_wire_or_executor_is_refused_and_breaks_nothing_else(field: str, value: str) -> None:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["hi"]))) as session:
        with pytest.raises(errors.InvalidParamsError, match="plug-in"):
            await session.open(**{field: value})
        assert (await session.root.message("hello")).text == "hi"


async def test_no_package_takes_the_place_of_a_provider_of_ours() -> None:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        conversation = await session.open(model="openai/gpt-5.2")
        assert conversation.info.model == "openai/gpt-5.2"


def test_a_projects_file_switches_no_plugin_on(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".tertulia").mkdir(parents=True)
    (project / ".tertulia/config.toml").write_text('tools = ["count"]\n')
    loaded = load_settings(cwd=project, environ={"HOME": str(tmp_path / "home")})
    assert loaded.settings.tools == ()
    assert any("tools is ignored" in warning for warning in loaded.warnings)


def test_a_registry_lists_what_is_installed() -> None:
    registry = PluginRegistry("tertulia.tools")
    assert registry.names() == ["count", "five", "missing", "shared"]
    with pytest.raises(PackageError, match="two plug-ins"):
        registry.load("shared")


@pytest.mark.slow
def test_a_package_of_each_kind_is_installed_and_used(tmp_path: Path) -> None:
    """The example packages are built as a user builds them, and found by their entry points alone."""
    assert [path.parent.name for path in EXAMPLES] == ["executor", "provider", "tool", "wire"]
    target = tmp_path / "site"
    flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", str(target))
    packages = [str(path.parent) for path in EXAMPLES]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, *packages], check=True, timeout=HANG_S)
    (tmp_path / "work").mkdir()
    use = [sys.executable, str(ROOT / "examples/plugins/use_all.py")]
    home = {"HOME": str(tmp_path), "TERTULIA_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    env = {**home, "PYTHONPATH": f"{target}:{ROOT / 'src'}"}
    run = subprocess.run(
        use, cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert run.returncode == 0, run.stderr
