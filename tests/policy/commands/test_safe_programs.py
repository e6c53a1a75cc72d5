"""Options that are on a list."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.commands.safe_programs import (
    GIT_ENVIRONMENT,
    KNOWN_PROGRAMS,
    Options,
    known_program,
    reads_only,
    reads_only_git,
    words,
)
from tests.tables import each_row

OPTIONS = Options("ab", "n", "long other-name")


@each_row(
    "arguments",
    [
        "",
        "x",
        "-",
        "--",
        "-a",
        "-ab",
        "-n 5",
        "-n5",
        "-an5",
        "-nxyz",
        "--long",
        "--long=x",
        "--other-name",
        "-a -- x -b",
    ],
)
def test_what_is_listed_is_admitted(arguments: str) -> None:
    assert OPTIONS.admit(arguments.split())


@each_row("arguments", ["-c", "-ac", "--lon", "--longer", "--", "---long", "-5", "-- -c", "-n -c"])
def test_what_is_not_listed_is_refused_wherever_it_stands(arguments: str) -> None:
    """B1: an abbreviation too, and also where it may be a value or a file."""
    assert OPTIONS.admit(arguments.split()) is (arguments == "--")


def test_a_list_is_written_as_a_sentence() -> None:
    assert words("a  b\nc") == {"a", "b", "c"}


@each_row(
    "line",
    [
        *("ls", "/bin/ls -la", "/usr/bin/cat x", "cd x", "echo -n x", "grep -rn 'a b' .", "head -5 x", "tail -f x"),
        *("find", "find . -name '*.py' -not -path './x/*' -size +1k -mtime -7 -size -1M", "find . ( -type f -o -ls )"),
        *(
            "sed -n 5p",
            "sed -n '$p' x",
            "sed -n 1,20p x y",
            "sed -n '1,$p' x",
            "sort",
            "sort -rnk2 -t, x",
            "sort --key=2",
        ),
        *("uniq", "uniq -c", "uniq -c x", "uniq -cf1 x", "uniq --count -", "base64 x", "base64 -d -w0 x"),
        *("date", "date -u +%F", "date -Iseconds", "date --date=yesterday '+%s x'", "diff -ru a b", "git status"),
        *("rg x", "rg -n --hidden -g '*.py' x", "rg --pretty x", "rg -A3 -e x"),
    ],
)
def test_readers_are_known(line: str) -> None:
    assert reads_only(shlex.split(line))


@each_row(
    "line",
    [
        *(
            "",
            "rm x",
            "./ls",
            "/tmp/ls",
            "/usr/local/bin/ls",
            "bin/ls",
            "/bin/../tmp/ls",
            "/usr/bin/sub/ls",
            "//bin/ls",
        ),
        *("''", "LS", "ls.", "bash -c ls", "sudo ls", "env ls", "xargs ls", "tee x", "awk 1", "printf x", "test x"),
        *(
            "find . -exec x ;",
            "find . -execdir x ;",
            "find . -ok x ;",
            "find . -okdir x ;",
            "find . -delete",
            "find -fls x",
        ),
        *(
            "find . -fprint x",
            "find . -fprint0 x",
            "find . -fprintf x y",
            "find -files0-from x",
            "find . -9x",
            "find --x",
        ),
        *("sed", "sed p x", "sed -n", "sed -n p x", "sed -n 1d x", "sed -n 1,p x", "sed -n 1p -i x", "sed -n 1p -- x"),
        *("sed -n 1w x", "sed -n '1p\nw x' y", "sed -i x", "sed -ne 1p x", "sed -n 5p -e '1e x'", "sed -n ٣p x"),
        *("sort -o x y", "sort -ox y", "sort -ro x", "sort --output=x", "sort --o x", "sort --compress-program=x"),
        *(
            "sort -T x",
            "sort -- -o x",
            "sort -t -o x",
            "uniq x y",
            "uniq - y",
            "uniq -- x",
            "uniq -c x -d",
            "uniq x -c y",
        ),
        *("uniq --out x", "base64 -o x", "base64 --output=x", "base64 -do x", "base64 -b 3", "date 0101", "date -s x"),
        *(
            "date --set=x",
            "date -f x",
            "date +%F 0101",
            "diff -l a b",
            "diff -ul a b",
            "diff --paginate a b",
            "diff --pag",
        ),
        *(
            "rg --pre x y",
            "rg --pre=x y",
            "rg -z x",
            "rg -nz x",
            "rg --search-zip x",
            "rg --hostname-bin x y",
            "rg --pr x",
        ),
        *("git push", "git"),
    ],
)
def test_what_can_do_more_than_read_is_asked_about(line: str) -> None:
    """B1: options that write or start something, other programs of the same name, and whatever is not known."""
    assert not reads_only(shlex.split(line))


def test_a_program_is_known_by_its_name_and_at_its_place() -> None:
    assert known_program("ls") == known_program("/bin/ls") == known_program("/usr/bin/ls") == "ls"
    assert known_program("./ls") is None
    assert known_program("/bin/rm") is None


@given(st.lists(st.one_of(st.sampled_from(sorted(KNOWN_PROGRAMS)), st.text(max_size=6)), max_size=5))
def test_any_words_get_a_verdict(words: list[str]) -> None:
    """HARDENING target 6."""
    assert reads_only(words) in (True, False)
    assert not reads_only(["evil", *words])


@each_row(
    "line",
    [
        *("status", "status -sb", "status --porcelain=v2 -uno", "log", "log -5 --oneline", "log -n5 -p -- a.py"),
        *("diff", "diff --stat HEAD~1", "diff --cached", "show HEAD:a.py", "--no-pager log", "branch", "branch -vv"),
        *("branch --show-current", "remote -v", "tag", "tag -l", "rev-parse --abbrev-ref HEAD", "ls-files -o"),
        *("blame -L1,5 a.py", "grep -n x", "cat-file -p HEAD", "ls-tree -r HEAD", "describe --tags"),
    ],
)
def test_verbs_that_read_are_known(line: str) -> None:
    assert reads_only_git(line.split())


@each_row(
    "line",
    [
        *("", "--no-pager", "push", "commit", "checkout x", "config a.b c", "unknown", "st", "difftool", "stash list"),
        *("-c core.pager=evil log", "-C /tmp log", "--git-dir=x log", "--exec-path=. log", "-p log", "--paginate log"),
        *("--no-pager -c x=y log", "--no-pager --no-pager log", "log --output=x", "log --outp=x", "diff --ext-diff"),
        *("log --textconv", "log --show-signature", "log --format=%G?", "log --pretty=%GG", "show --format=a%GSb"),
        *(
            "diff --no-index a b",
            "grep -Oless x",
            "grep --open-files-in-pager x",
            "branch x",
            "branch -d x",
            "branch -D",
        ),
        *(
            "branch --list x",
            "branch -- x",
            "branch -",
            "remote add x y",
            "remote -v show x",
            "tag x",
            "tag -d",
            "tag -l x",
        ),
        *("cat-file --textconv HEAD:a", "cat-file --filters HEAD:a", "rev-parse --parseopt", "ls-files --no-such"),
    ],
)
def test_every_other_verb_and_option_is_asked_about(line: str) -> None:
    """B1."""
    assert not reads_only_git(line.split())


def test_the_environment_names_each_setting_with_its_value() -> None:
    count = int(GIT_ENVIRONMENT["GIT_CONFIG_COUNT"])
    settings = {GIT_ENVIRONMENT[f"GIT_CONFIG_KEY_{n}"]: GIT_ENVIRONMENT[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}
    assert settings["core.fsmonitor"] == "false"
    assert settings["safe.barerepository"] == "explicit"
    assert f"GIT_CONFIG_KEY_{count}" not in GIT_ENVIRONMENT
