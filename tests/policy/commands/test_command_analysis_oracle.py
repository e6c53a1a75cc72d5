"""Known-safe commands, against what bash really executes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tertulia.policy.commands.command_analysis import MAX_CHARACTERS, ShellScript, Words, analyse_command, read_script
from tertulia.policy.commands.safe_programs import KNOWN_PROGRAMS
from tests.policy.bash_oracle import TracedBash, needs_strace
from tests.tables import each_row

pytestmark = needs_strace

ALLOWED = {f"{folder}/{name}" for folder in ("/bin", "/usr/bin", "/usr/lib/git-core") for name in KNOWN_PROGRAMS}

SAFE = [
    "ls -la",
    "cat a.txt",
    "grep -rn two .",
    "egrep 'one|two' a.txt",
    "head -n 2 a.txt",
    "tail -1 a.txt",
    "wc -l a.txt",
    "pwd",
    "cd sub",
    "find . -name '*.txt' -type f -mtime -7",
    "git status",
    "git log --oneline -5",
    "git log -p",
    "git log --pretty=evil",
    "git diff",
    "git --no-pager show HEAD",
    "git branch -a",
    "git describe --always --dirty",
    "git blame a.txt",
    "git grep -n two",
    "git ls-files --others",
    "sed -n 1,2p a.txt",
    "sort -k1,1 -u a.txt",
    "uniq -c a.txt",
    "base64 -d a.txt",
    "diff -u a.txt sub/b.txt",
    "date -u +%F",
    "which ls",
    "/usr/bin/stat a.txt",
    "echo 'a b' \"c d\"",
    "tr a b",
    "cut -d: -f1 a.txt",
]

DANGEROUS = [
    "evil",
    "./evil",
    "./ls",
    "sub/cat",
    "find . -exec evil {} +",
    "find . -execdir evil ';'",
    "find . -delete",
    "find . -fprint x",
    "find . -fprintf x y",
    "git -c core.pager=evil log",
    "git -C sub log",
    "git log --output=x",
    "git diff --outpu=x",
    "git log --format=%G?",
    "git grep -Oevil two",
    "git branch x",
    "git tag x",
    "git config a.b c",
    "sort -o x a.txt",
    "sort --compress-program=evil a.txt",
    "uniq a.txt x",
    "uniq -- -c x",
    "uniq - x",
    "base64 -o x a.txt",
    "sed -i s/a/b/ a.txt",
    "sed -n 1p -i a.txt",
    "sed -n 'w x' a.txt",
    "sed -n '1e evil' a.txt",
    "diff -l a.txt sub/b.txt",
    "rg --pre evil two",
    "date 01010101",
    "env evil",
    "command evil",
    "exec evil",
    "eval evil",
    "printf -v PATH x",
    "alias ls=evil",
    "tee x",
    "xargs evil",
    "rm a.txt",
]

# What bash makes something of, to be put between, inside and around the above.
SPICES = [
    *(
        "|",
        "||",
        "|&",
        "&",
        "&&",
        ";",
        ";;",
        "\n",
        "\r",
        "\r\n",
        "\\\n",
        "\t",
        " ",
        "\u00a0",
        "\u2028",
        "#",
        "!",
        "-",
        "--",
    ),
    *("$(evil)", "`evil`", "$x", "${x}", "$'\\n'", '$""', "<(evil)", ">(evil)", "{ evil; }", "(evil)", "-exec", "evil"),
    *("> x", "< a.txt", ">> x", "2>&1", "<<E", "<<<x", "X=1 ", "PATH=. ", "env X=1 ", "time ", "if ", "! ", "coproc "),
    *("*", "?", "[a]", "{a,b}", "~", "\\", "'", '"'),
]

JOINS = [" && ", " || ", "; ", " | ", ";", "|", "&&", " ", ""]


def spiced(chance: Random, text: str) -> str:
    """The text with up to two spices anywhere."""
    for _ in range(chance.randint(0, 2)):
        position = chance.randint(0, len(text))
        text = text[:position] + chance.choice(SPICES) + text[position:]
    return text


def some_script(chance: Random) -> str:
    commands = [chance.choice(chance.choice([SAFE, SAFE, DANGEROUS])) for _ in range(chance.randint(1, 4))]
    return spiced(chance, "".join(chance.choice(JOINS) + command for command in commands).lstrip(" &|;"))


@pytest.fixture(scope="module")
def traced_bash(tmp_path_factory: pytest.TempPathFactory) -> TracedBash:
    return TracedBash(tmp_path_factory.mktemp("oracle"))


def is_safe(script: str) -> bool:
    return analyse_command(["bash", "-c", script]).known_safe


def test_the_oracle_sees_a_program_that_is_not_on_the_list(tmp_path: Path) -> None:
    """The control: without it the tests below could pass because nothing was looked at."""
    place = TracedBash(tmp_path)
    started = place.started_by(["ls; evil", "find . -maxdepth 0 -exec evil {} +", "echo $(./evil)", "bash -c evil"])
    assert sum(words[0].endswith("evil") for _, words in started) >= 4
    assert "bash" in [words[0] for _, words in started]
    before = place.digest()
    place.started_by(["sort -o x a.txt"])
    assert place.digest() != before


@pytest.mark.parametrize("script", ["git status", "git log", "git diff", "cat a.txt", "ls", "pwd"])
def test_everything_around_a_reader_would_start_a_program_without_our_environment(script: str, tmp_path: Path) -> None:
    """The control for `safe_environment`: the repository, the shell's files and functions, and the PATH are traps."""
    started = TracedBash(tmp_path).started_by([script], safely=False)
    assert [path for path, _ in started if path not in ALLOWED]


def test_every_example_of_a_read_is_known_to_be_safe_and_every_other_is_not() -> None:
    """B1."""
    assert [script for script in SAFE if not is_safe(script)] == []
    assert [script for script in DANGEROUS if is_safe(script)] == []


def test_every_example_of_a_read_starts_what_is_listed_and_changes_nothing(traced_bash: TracedBash) -> None:
    """B1: the oracle is what bash really executes."""
    before = traced_bash.digest()
    started = traced_bash.started_by(SAFE)
    assert [path for path, _ in started if path not in ALLOWED] == []
    assert len(started) >= len(SAFE) - 4, "all but the builtins were started"
    assert traced_bash.digest() == before


def check_generated(traced_bash: TracedBash, seed: int) -> None:
    chance = Random(seed)
    safe = [script for script in (some_script(chance) for _ in range(300)) if is_safe(script)]
    assert len(safe) > 10, "hardly anything was judged safe: nothing was tried"
    before = traced_bash.digest()
    started = traced_bash.started_by(safe)
    assert [path for path, _ in started if path not in ALLOWED] == []
    assert traced_bash.digest() == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_is_judged_safe_starts_a_program_that_is_not_on_the_list(
    traced_bash: TracedBash, seed: int
) -> None:
    """B1: grammar-generated commands; the oracle is what bash really executes (strace execve)."""
    check_generated(traced_bash, seed)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(3, 100))
def test_nothing_that_is_judged_safe_starts_another_program_in_a_long_run(traced_bash: TracedBash, seed: int) -> None:
    """B1, with more seeds."""
    check_generated(traced_bash, seed)


WORDS = ["a", "b.c", "'x y'", '"x  y"', "''", "'é'", "-n", "a'b'c", "--k=v", "'$x'", "'*'", '";"', "k=v", 'a"b"']


def some_words(chance: Random) -> str:
    """Any words, but always of a program that does nothing."""
    commands = [" ".join(["show", *chance.choices(WORDS, k=chance.randint(0, 4))]) for _ in range(chance.randint(1, 3))]
    return spiced(chance, chance.choice([";", " ; ", "&&", " && ", "|", " | "]).join(commands))


@pytest.mark.parametrize("seed", range(2))
def test_what_is_read_is_word_for_word_what_bash_executes(traced_bash: TracedBash, seed: int) -> None:
    """B1: also for programs that must be asked about, a person is shown what would run."""
    chance = Random(seed)
    tried = [some_words(chance) for _ in range(200)]
    scripts = {
        text: script
        for text in tried
        if (script := read_script(text)) and all(words[0] == "show" for words in script.commands)
    }
    assert len(scripts) > 30, "hardly anything was read: nothing was tried"
    started = traced_bash.started_by(list(scripts))
    expected = [list(words) for script in scripts.values() for words in executed(script)]
    assert sorted(words for _, words in started) == sorted(expected)


def executed(script: ShellScript) -> list[Words]:
    """All of it, as every command succeeds, but not what follows `||` up to the next `;` or `&&`."""
    runs, skipped = [script.commands[0]], False
    for join, words in zip(script.joins, script.commands[1:], strict=True):
        skipped = join == "||" or (skipped and join == "|")
        runs += [] if skipped else [words]
    return runs


@each_row("count", [51, 500, 3_000])
def test_one_command_that_must_be_asked_about_is_found_among_any_number(count: int) -> None:
    """B2: deny stays deny; a script that is too long to be read is asked about as a whole."""
    reads = ["ls -la"] * count
    assert is_safe("; ".join(reads)) is (len("; ".join(reads)) <= MAX_CHARACTERS)
    for position in (0, count // 2, count):
        assert not is_safe("; ".join([*reads[:position], "rm x", *reads[position:]]))
        assert not is_safe(" && ".join([*reads[:position], "ls $(rm x)", *reads[position:]]))


def test_more_commands_than_are_read_are_asked_about() -> None:
    """B2, L6: whatever they are."""
    assert not is_safe("; ".join(["ls -la"] * 50_000))
