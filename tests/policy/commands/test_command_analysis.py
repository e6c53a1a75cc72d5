"""Commands, before they are allowed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tertulia.policy.commands.command_analysis import (
    MAX_CHARACTERS,
    GrantKey,
    ShellScript,
    analyse_command,
    read_script,
    safe_environment,
)
from tertulia.protocol.ids import ConversationId
from tests.tables import each_row

A, B = ConversationId("a"), ConversationId("b")


@each_row("shell", ["bash", "sh", "/bin/bash", "/usr/bin/sh"])
@pytest.mark.parametrize("flag", ["-c", "-lc"])
def test_a_script_is_looked_into(shell: str, flag: str) -> None:
    reading = analyse_command([shell, flag, "ls -la && cat 'x y'|head"])
    assert reading.commands == (("ls", "-la"), ("cat", "x y"), ("head",))
    assert reading.known_safe
    assert reading.canonical == (shell, flag, "ls -la && cat 'x y' | head")


@each_row(
    "argv",
    [
        [],
        ["bash"],
        ["bash", "-c"],
        ["bash", "-c", "ls $(evil)"],
        ["bash", "-c", "ls", "name"],
        ["bash", "-ic", "ls"],
        ["bash", "-l", "-c", "ls"],
        ["bash", "--rcfile", "ls"],
        ["bash", "script.sh"],
        ["ls", "a\0b"],
        ["bash", "-c", "ls\0"],
    ],
)
def test_what_cannot_be_read_is_neither_safe_nor_respelled(argv: list[str]) -> None:
    """B1: unparsed = ask."""
    reading = analyse_command(argv)
    assert reading.commands is None
    assert not reading.known_safe
    assert reading.canonical == tuple(argv)


@each_row(
    ("argv", "safe"),
    [
        (["ls", "-la", "$(evil)"], True),
        (["grep", "a\nb", "x"], True),
        (["rm", "x"], False),
        (["./bash", "-c", "ls"], False),
        (["zsh", "-lc", "ls"], False),
        (["bash", "-lc", "ls; rm x"], False),
        (["bash", "-lc", "bash -c ls"], False),
        ([""], False),
    ],
)
def test_a_command_without_a_script_is_read_as_it_is(argv: list[str], safe: bool) -> None:
    reading = analyse_command(argv)
    assert reading.commands is not None
    assert reading.known_safe is safe


@given(st.lists(st.one_of(st.sampled_from(["bash", "-c", "-lc", "ls", "ls; rm"]), st.text(max_size=8)), max_size=4))
def test_the_canonical_spelling_of_a_canonical_spelling_is_itself(argv: list[str]) -> None:
    """HARDENING target 6, and S002-11: a key is found again by what it says."""
    once = analyse_command(argv)
    assert analyse_command(once.canonical) == once


def test_keys_are_equal_whenever_they_end() -> None:
    """S002-11, X-30."""
    key = GrantKey(("exec", "ls"), A, 5.0, "d")
    assert key == GrantKey(("exec", "ls"), A, None, "d")
    assert hash(key) == hash(GrantKey(("exec", "ls"), A, 7.0, "d"))
    for other in (
        GrantKey(("exec", "cat"), A, 5.0, "d"),
        GrantKey(("exec", "ls"), B, 5.0, "d"),
        GrantKey(("exec", "ls"), None, 5.0, "d"),
        GrantKey(("exec", "ls"), A, 5.0, "e"),
        ("exec", "ls"),
    ):
        assert key != other


@each_row(
    ("path", "expected"),
    [
        ("/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin"),
        (".:/usr/bin::bin:./x", "/usr/bin"),
        ("/work/bin:/work:/usr/bin:/work/../work/x:/workshop", "/usr/bin:/workshop"),
        ("", "/usr/bin:/bin"),
        (".", "/usr/bin:/bin"),
    ],
)
def test_no_program_of_the_workspace_or_the_current_directory_is_found(path: str, expected: str) -> None:
    """B1: `ls` is the system's, also where the workspace has one."""
    assert safe_environment({"PATH": path}, ["/work/", "/other"])["PATH"] == expected


def test_where_everything_is_writable_only_the_system_is_left() -> None:
    assert safe_environment({"PATH": "/opt/bin"}, ["/"])["PATH"] == "/usr/bin:/bin"


def test_what_comes_before_a_command_or_in_its_place_is_dropped_and_the_rest_is_kept() -> None:
    """B1."""
    fields = {
        "HOME": "/h",
        "LC_ALL": "C",
        "BASH_ENV": "x",
        "BASH_FUNC_ls%%": "() { evil; }",
        "ENV": "x",
        "GIT_DIR": "x",
    }
    environment = safe_environment({**fields, "SHELLOPTS": "x", "RIPGREP_CONFIG_PATH": "x", "GIT_PAGER": "evil"}, [])
    assert {name: environment.get(name) for name in fields} == {
        "HOME": "/h",
        "LC_ALL": "C",
        "BASH_ENV": None,
        "BASH_FUNC_ls%%": None,
        "ENV": None,
        "GIT_DIR": None,
    }
    assert environment["GIT_PAGER"] == "cat"
    assert "SHELLOPTS" not in environment
    assert "RIPGREP_CONFIG_PATH" not in environment


def test_a_home_that_the_agent_can_write_is_no_home(tmp_path: Path) -> None:
    """B1: `bash -lc ls` would first run the profile that lies there."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    for inside in (str(home), str(home / "sub"), str(link)):
        assert safe_environment({"HOME": inside}, [str(home)])["HOME"] == "/nonexistent"
    assert safe_environment({"HOME": str(elsewhere)}, [str(home)])["HOME"] == str(elsewhere)
    environment = safe_environment({"XDG_CONFIG_HOME": str(home), "LD_PRELOAD": "x"}, [str(home)])
    assert environment["XDG_CONFIG_HOME"] == "/nonexistent"
    assert environment["HOME"] == "/nonexistent"
    assert "LD_PRELOAD" not in environment


def test_no_program_is_found_through_a_link_into_the_workspace(tmp_path: Path) -> None:
    """B1."""
    (tmp_path / "work").mkdir()
    link = tmp_path / "bin"
    link.symlink_to(tmp_path / "work")
    assert safe_environment({"PATH": f"{link}:/usr/bin"}, [str(tmp_path / "work")])["PATH"] == "/usr/bin"


# What shells make something of comes often, everything else now and then.
SCRIPTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["ls", "-l", " ", "\t", "'", '"', "&&", "||", ";", "|", "&", "$", "`", "(", ")", "<", ">", "\\"]
        ),
        st.sampled_from(["\n", "\r", "{", "}", "*", "?", "[", "]", "~", "#", "!", "=", "\0", "\u202e", "\ud800", "é"]),
        st.text(max_size=3),
    )
).map("".join)


@each_row(
    ("text", "commands", "joins"),
    [
        ("ls", [("ls",)], ()),
        ("  ls\t-la ", [("ls", "-la")], ()),
        ("ls;", [("ls",)], ()),
        ("ls ; ", [("ls",)], ()),
        ("a&&b||c;d|e", [("a",), ("b",), ("c",), ("d",), ("e",)], ("&&", "||", ";", "|")),
        ("echo 'a b'\"c d\"e", [("echo", "a bc de")], ()),
        ("echo '' \"\"", [("echo", "", "")], ()),
        ("echo ';' \"|\" '&&'", [("echo", ";", "|", "&&")], ()),
        ("echo '$x `y` \\ \"' \"it's\"", [("echo", '$x `y` \\ "', "it's")], ()),
        ("grep 'é' a=b", [("grep", "é", "a=b")], ()),
        ("ls if", [("ls", "if")], ()),
    ],
)
def test_plain_words_are_read(text: str, commands: list[tuple[str, ...]], joins: tuple[str, ...]) -> None:
    assert read_script(text) == ShellScript(tuple(commands), joins)


@each_row(
    "text",
    [
        *("", " ", ";", "&& ls", "ls &&", "ls ||", "ls |", "ls;;", "ls ; ; ls", "| ls", "ls && && ls"),
        *("ls &", "ls & evil", "ls |& evil", "ls &> x", "(ls)", "{ ls; }", "ls\nevil", "ls\revil", "ls\r\n", "ls\n"),
        *("ls $x", "ls ${x}", "ls $(evil)", "ls `evil`", 'ls "$(evil)"', 'ls "`evil`"', "ls $'x'", 'ls $"x"'),
        *("ls > x", "ls < x", "ls 2>&1", "ls >> x", "ls <<E", "ls <<< x", "ls <(evil)", "ls >(evil)"),
        *("ls *", "ls ?", "ls [a]", "ls {a,b}", "ls ~", "ls a~b", "ls # x", "ls!", 'ls "!x"', "ls \\x", 'ls "\\x"'),
        *("X=1 ls", "X=1", "X+=1 ls", "PATH=. ls", "ls && X=1 ls", "if ls", "time ls", "ls | time ls", "coproc ls"),
        *("ls 'x", 'ls "x', "ls x'", "ls é", "ls\u00a0evil", "ls\u2028evil", "ls '\u202e'", "ls '\n'", "ls '\0'"),
        *("ls '\ud800'", "ls '\u200b'", "ls ^x", "ls \x1b[0m"),
    ],
)
def test_what_says_more_than_plain_words_is_not_read(text: str) -> None:
    """B1: each is a way to say more in one line than it seems."""
    assert read_script(text) is None


@given(SCRIPTS)
@example("'" * 100_000)
@example("a" * 1_000_000 + "$")
@example("a'b'" * 250_000 + "$")
@example(" " * 1_000_000 + "$")
@example("a;" * 500_000)
def test_any_text_is_read_or_not_and_nothing_else_happens(text: str) -> None:
    """HARDENING target 6: no crash, no hang."""
    script = read_script(text)
    if script is not None:
        assert all(script.commands)
        assert len(script.joins) == len(script.commands) - 1
        assert read_script(script.text) == script


@given(SCRIPTS)
def test_the_words_are_those_that_the_standard_library_finds(text: str) -> None:
    """B1: a second opinion on words and quotes."""
    script = read_script(text)
    if script is not None:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        pieces = [list(words) for words in script.commands]
        for number, join in enumerate(script.joins):
            pieces[number].append(join)
        found = [piece for words in pieces for piece in words]
        assert list(lexer) in (found, [*found, ";"])


def test_one_script_has_one_spelling() -> None:
    spellings = ["ls  -la&&cat 'x'", 'ls -la && cat "x"', "'ls' -la\t&& cat x"]
    assert {script.text for script in map(read_script, spellings) if script} == {"ls -la && cat x"}


def test_a_quoted_operator_is_spelled_unlike_an_operator() -> None:
    word, operator = read_script("echo ';' rm"), read_script("echo ; rm")
    assert word is not None
    assert operator is not None
    assert word.text == "echo ';' rm"
    assert operator.text == "echo ; rm"


def test_a_script_that_is_too_long_is_not_read() -> None:
    """L6: it is read on the loop, and 1 MB of `a;` took a second."""
    assert read_script("a;" * (MAX_CHARACTERS // 2)) is not None
    assert read_script("a;" * (MAX_CHARACTERS // 2) + "a") is None
