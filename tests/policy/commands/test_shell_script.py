"""Scripts that can be read, and all the others."""

from __future__ import annotations

import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from tertulia.policy.commands.shell_script import MAX_CHARACTERS, ShellScript, read_script
from tests.tables import each_row

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
