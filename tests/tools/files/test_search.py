"""Issue 24: `grep`, `glob` and `view` find and show files within bounds, and nothing of a masked place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask
from tertulia.sandbox.sandbox import Sandbox
from tertulia.tools.files import search
from tertulia.tools.files.path_patterns import IgnoreRules, PatternError, compile_glob
from tests.agents.installed import AGENTS
from tests.sandbox.confined import need
from tests.tables import each_row
from tests.tools.workbench import Workbench, code, workbench

_INSTALLED = [str(path.parent) for path in AGENTS.glob("@openai/codex-linux-*/vendor/*/codex-path/rg")]
RIPGREP = shutil.which("rg", path=":".join(["/usr/local/bin:/usr/bin:/bin", *_INSTALLED]))
"""That of the system, or the one that Codex brings along."""
PROGRAMS = ["ours", *(["ripgrep"] if RIPGREP else [])]


def use(bench: Workbench, program: str) -> None:
    """Search with ripgrep or with our own program."""
    path = os.path.dirname(RIPGREP or "") if program == "ripgrep" else "/nonexistent"
    place = replace(bench.place, environment={**bench.place.environment, "PATH": path})
    for name in ("grep", "glob"):
        bench.registry.get(name)._place = place  # type: ignore[union-attr]


def fill(root: Path) -> None:
    files = {
        "a.py": "import os\nprint('needle')\n# Needle\n",
        "src/b.py": "needle = 1\nx\ny\nz\nneedle + 2\n",
        "src/c.js": "needle\r\n",
        "build/out.py": "needle\n",
        "keep.log": "needle\n",
        "other.log": "needle\n",
        ".hidden/d.py": "needle\n",
        ".git/config": "needle\n",
        ".gitignore": "build/\n*.log\n!keep.log\n",
        "src/.ignore": "ignored.txt\n",
        "src/ignored.txt": "needle\n",
        "latin.txt": "caf\udce9 needle\n",
        "new\nline.txt": "needle\n",
        "binary.bin": "needle\0needle\n",
        "wide.txt": "\udcff\udcfe" + "".join(f"{letter}\0" for letter in "a needle\r\nno\r\n"),
        "long.txt": f"needle {'x' * 3000}\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    os.mkfifo(root / "pipe")
    (root / "away").symlink_to("/etc")
    (root / "me.py").symlink_to("a.py")


VISIBLE = [
    ".hidden/d.py",
    "a.py",
    "keep.log",
    "latin.txt",
    "long.txt",
    "new\\nline.txt",
    "src/b.py",
    "src/c.js",
    "wide.txt",
]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_lines_files_and_counts_are_found_where_no_ignore_file_hides_them(tmp_path: Path, program: str) -> None:
    async with workbench(tmp_path) as bench:
        fill(bench.root)
        use(bench, program)
        files = await bench.call("grep", {"pattern": "needle", "output": "files"})
        assert [name.replace("⟨U+000A⟩", "\\n") for name in files.text.split("\n")] == [*VISIBLE, "[9 files]"]
        one = await bench.call("grep", {"pattern": "needle$|^NEEDLE", "ignore_case": True, "glob": "*.{py,js}"})
        assert one.text.split("\n") == [
            *(".hidden/d.py", "1:needle", "", "a.py", "3:# Needle", "", "src/b.py", "1:needle = 1", "5:needle + 2", ""),
            *("src/c.js", "1:needle", "[5 lines]"),
        ]
        count = await bench.call("grep", {"pattern": r"\bneedle\b", "output": "count", "path": "src"})
        assert count.text == "src/b.py: 2\nsrc/c.js: 1\n[2 files]"
        near = await bench.call("grep", {"pattern": r"= 1|\+ 2", "context": 1, "path": "src/b.py"})
        assert near.text == "src/b.py\n1:needle = 1\n2-x\n…\n4-z\n5:needle + 2\n[2 lines]"
        cut = await bench.call("grep", {"pattern": "needle", "limit": 2})
        assert cut.truncated
        assert "[the first 2 of " in cut.text
        assert len((await bench.call("grep", {"pattern": "xxx", "path": "long.txt"})).text) < 700
        assert (await bench.call("grep", {"pattern": "nowhere"})).text == "[nothing matches]"
        nested = await bench.call("grep", {"pattern": "needle", "glob": "src/**/*.py", "output": "files"})
        assert nested.text == "src/b.py\n[1 file]"
        for arguments in ({"pattern": "*.py"}, {"pattern": "**/*.py"}):
            assert (await bench.call("glob", arguments)).text == ".hidden/d.py\na.py\nsrc/b.py\n[3 files]"
        assert (await bench.call("glob", {"pattern": "/*.py"})).text == "a.py\n[1 file]"
        assert (await bench.call("glob", {"pattern": "b.*", "path": str(bench.root / "src")})).text.startswith(
            "src/b.py"
        )
        assert (await bench.call("glob", {"pattern": "*.nope"})).text == "[no file fits]"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("grep", {"pattern": "(x"}, "the pattern cannot be used"),
    ("grep", {"pattern": "a\nb"}, "one line"),
    ("grep", {"pattern": "x", "path": "../outside"}, "lies outside of the working directory"),
    ("grep", {"pattern": "x", "path": "away"}, "lies outside of the working directory"),
    ("grep", {"pattern": "x", "path": "pipe"}, "neither a directory nor a file"),
    ("grep", {"pattern": "x", "path": "none"}, "No such file"),
    ("grep", {"pattern": "x", "path": "a\0b"}, "NUL"),
    ("glob", {"pattern": "{a,b}" * 7}, "stands for more than 64 patterns"),
    ("glob", {"pattern": "x" * 600}, "more than 500 characters"),
    ("view", {"path": "pipe"}, "neither a file nor a directory"),
    ("view", {"path": "me.py"}, "is a symbolic link to a.py"),
    ("view", {"path": "away/passwd"}, "away is a symbolic link to /etc"),
    ("view", {"path": "/etc/passwd"}, "lies outside of the working directory"),
    ("view", {"path": "none"}, "No such file"),
    ("view", {"path": "binary.bin"}, "is a binary file of 14 bytes"),
]


async def test_what_cannot_be_searched_or_shown_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        fill(bench.root)
        use(bench, "ours")
        for tool, arguments, reason in REFUSED:
            result = await bench.call(tool, arguments)
            assert not result.success, arguments
            assert reason in result.text, result.text


@pytest.mark.parametrize("program", PROGRAMS)
async def test_nothing_of_a_masked_place_is_found_or_named(tmp_path: Path, program: str) -> None:
    workspace = Path(os.path.realpath(tmp_path)) / "workspace"
    masked = (str(workspace / "secret"), str(workspace / "key.txt"))
    async with workbench(tmp_path, masked=masked) as bench:
        (bench.root / "secret").mkdir()
        for name in ("secret/inside.txt", "key.txt", "plain.txt"):
            (bench.root / name).write_text("needle\n")
        use(bench, program)
        assert (await bench.call("grep", {"pattern": "needle"})).text == "plain.txt\n1:needle\n[1 line]"
        assert (await bench.call("glob", {"pattern": "*"})).text == "plain.txt\n[1 file]"
        assert (await bench.call("view", {"path": "."})).text == ". is a directory:\n  plain.txt"
        for name in ("secret", "secret/inside.txt", "key.txt"):
            for tool, more in (("view", {}), ("grep", {"pattern": "needle"}), ("glob", {"pattern": "*"})):
                assert code(await bench.call(tool, {"path": name, **more})) == "invalid_params"


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("program", PROGRAMS)
async def test_what_cannot_be_read_does_not_count_against_the_pattern(tmp_path: Path, program: str, tier: Any) -> None:
    need(tier)
    masked = GuardedPaths((Mask(f"{os.path.realpath(tmp_path)}/workspace/secret", "secret", "a secret of the test"),))
    async with workbench(tmp_path, guarded=masked, runner=Sandbox(tier=tier, clock=SystemClock())) as bench:
        (bench.root / "secret").mkdir()
        (bench.root / "plain").write_text("found\n")
        use(bench, program)
        assert (await bench.call("grep", {"pattern": "nowhere"})).text == "[nothing matches]"
        assert (await bench.call("grep", {"pattern": "found"})).text == "plain\n1:found\n[1 line]"
        assert "the pattern cannot be used: " in (await bench.call("grep", {"pattern": "(x"})).text


async def test_a_pattern_that_would_take_for_ever_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "a").write_text("found\n")
        (bench.root / "b").write_text("a" * 60 + "\n")
        use(bench, "ours")
        # A busy machine may not come to the first file in so short a time.
        for seconds in (0.5, 4, 32):
            monkeypatch.setattr(search, "SECONDS", seconds)
            result = await bench.call("grep", {"pattern": "found|(a|a)+b"})
            assert f"it took longer than {seconds} s" in result.text
            if "1:found" in result.text:
                return
        pytest.fail("what was found before is not told")


async def test_a_million_matches_and_a_large_file_are_cut_short(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with (bench.root / "big").open("wb") as file:
            for _ in range(20):
                file.write(b"a needle in a line\n" * 50_000)
        use(bench, "ours")
        result = await bench.call("grep", {"pattern": "needle", "limit": 3})
        assert result.text.startswith("big\n1:a needle in a line\n2:a needle in a line\n3:")
        assert "[the first 3 of" in result.text
        viewed = await bench.call("view", {"path": "big", "line": 999_999, "limit": 5})
        assert viewed.text.split("\n")[0] == "999999\ta needle in a line"
        assert "[lines 999,999 to 1,000,000 of a file of 19,000,000 bytes, too large to be edited here]" in viewed.text
        past = await bench.call("view", {"path": "big", "line": 1_000_001})
        assert past.text == "big has 19,000,000 bytes, and no line 1,000,001"


async def test_a_view_says_which_lines_it_shows_and_lists_directories(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "sub" / "deep").mkdir(parents=True)
        (bench.root / "sub" / "f").write_bytes(b"caf\xe9\r\n" + b"y" * 3_000 + b"\nlast")
        os.link(bench.root / "sub" / "f", bench.root / "same")
        part = await bench.call("view", {"path": "same", "line": 2, "limit": 1})
        assert part.text == f"     2\t{'y' * 2000} [… 3,000 characters in all]\n[lines 2 to 2 of 3]"
        assert (await bench.call("view", {"path": "sub/f", "limit": 1})).text.startswith("     1\tcaf\ufffd\n")
        assert (await bench.call("view", {"path": "sub/f", "line": 9})).text == "sub/f has 3 lines, there is no line 9"
        assert (await bench.call("view", {"path": "."})).text == ". is a directory:\n  same\n  sub/\n    deep/\n    f"
        (bench.root / "empty").touch()
        assert (await bench.call("view", {"path": "empty"})).text == "empty is empty"


@each_row(
    ("pattern", "fits", "fits_not"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("/a", ["a"], ["x/a"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py"]),
        ("src/**/a", ["src/a", "src/x/y/a"], ["a", "src/ab"]),
        ("**/x/**", ["x/a", "b/x/c/d"], ["x", "bx/a"]),
        ("a*b*c", ["abc", "aXbXbc"], ["ab", "acb"]),
        ("[!a]?.t", ["bc.t"], ["ac.t", "b/.t"]),
        ("{a,b}.{x,y}", ["a.x", "b.y"], ["a.z"]),
        (r"\*", ["*"], ["a"]),
    ],
)
def test_a_pattern_of_paths_fits_what_git_says(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    regex = compile_glob(pattern)
    assert [path for path in [*fits, *fits_not] if regex.match(path)] == fits


def test_no_pattern_of_paths_takes_long() -> None:
    """Each of them would, if places were tried again and again."""
    for pattern in ("*a" * 60 + "b", "**/a/" * 60 + "b", "{a*,b*}*" * 2 + "*a" * 50 + "b"):
        assert compile_glob(pattern).match("a/" * 400 + "a" * 400) is None
    with pytest.raises(PatternError):
        compile_glob("[z-a]")


@each_row(
    ("rules", "path", "is_directory", "ignored"),
    [
        ("*.log\n!keep.log", "a.log", False, True),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("build/", "build", False, None),
        ("build/", "build", True, True),
        ("/only", "sub/only", False, None),
        ("# note\n\n  ", "note", False, None),
        ("a/**/z", "a/b/c/z", False, True),
        ("!x\nx", "x", False, True),
    ],
)
def test_the_last_rule_of_an_ignore_file_decides(
    rules: str, path: str, is_directory: bool, ignored: bool | None
) -> None:
    name = path.rpartition("/")[2]
    assert IgnoreRules(rules.split("\n")).ignores(path, name, is_directory) is ignored
