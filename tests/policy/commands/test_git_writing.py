"""Which git commands may write a repository, by their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.commands.git_writing import GIT_VERBS, GitReading, GitWrite, read_git
from tests.tables import each_row

WRITES = [
    ("add .", GitWrite("add", (".",), "everything", (".",))),
    ("add -A", GitWrite("add", ("-A",), "everything")),
    ("add -u src", GitWrite("add", ("-u", "src"), "tracked", ("src",))),
    ("add --force -- -x", GitWrite("add", ("--force", "--", "-x"), "everything", ("-x",), ignored_too=True)),
    ("add --chmod=+x a", GitWrite("add", ("--chmod=+x", "a"), "everything", ("a",))),
    ("add --chmod +x a", GitWrite("add", ("--chmod", "+x", "a"), "everything", ("a",))),
    ("commit -m one", GitWrite("commit", ("-m", "one"), "index")),
    ("commit -mone -q", GitWrite("commit", ("-mone", "-q"), "index")),
    ("commit -am one", GitWrite("commit", ("-am", "one"), "tracked")),
    ("commit --message=one a b", GitWrite("commit", ("--message=one", "a", "b"), "tracked", ("a", "b"))),
    ("commit -F file", GitWrite("commit", ("-F", "file"), "index")),
    ("commit --amend --no-edit", GitWrite("commit", ("--amend", "--no-edit"), "index")),
    ("commit -m - -", GitWrite("commit", ("-m", "-", "-"), "tracked", ("-",))),
    ("branch topic", GitWrite("branch", ("topic",), "nothing")),
    ("branch -d topic", GitWrite("branch", ("-d", "topic"), "nothing")),
    ("tag v1", GitWrite("tag", ("v1",), "nothing")),
    ("tag -a v1 -m one", GitWrite("tag", ("-a", "v1", "-m", "one"), "nothing")),
]


@each_row("line, write", WRITES)
def test_a_plain_command_with_listed_options_is_read(line: str, write: GitWrite) -> None:
    """Issue 19, 10"""
    for argv in (["git", *line.split()], ["/usr/bin/git", *line.split()], ["bash", "-c", f"git {line}"]):
        assert read_git(argv) == GitReading(write)


REASONS = [
    (["git"], "`git ` is not among"),
    (["git", "push"], "`git push` is not among add, branch, commit, tag"),
    (["git", "-c", "a.b=c", "commit", "-m", "x"], "no option may stand before the verb"),
    (["git", "--exec-path=/x", "commit", "-m", "x"], "no option may stand before the verb"),
    (["git", "commit", "-S", "-m", "x"], "the option '-S' of `git commit` is not listed"),
    (["git", "commit", "-aem", "x"], "the option '-aem' of `git commit` is not listed"),
    (["git", "commit", "--template=x", "-m", "x"], "'--template=x' of `git commit` is not listed"),
    (["git", "commit", "--all=x", "-m", "x"], "'--all=x' of `git commit` is not listed"),
    (["git", "commit", "-m"], "the option '-m' of `git commit` is not listed"),
    (["git", "add", "-p"], "the option '-p' of `git add` is not listed"),
    (["git", "add", "-i"], "is not listed"),
    (["git", "commit", "-a"], "there is no editor"),
    (["git", "commit", "--amend"], "there is no editor"),
    (["git", "tag", "-a", "v1"], "there is no editor"),
    (["git", "branch"], "only lists"),
    (["git", "tag"], "only lists"),
    (["bash", "-c", "git add . && git commit -m x"], "more than one command"),
    (["bash", "-c", "cd x; git add ."], "more than one command"),
    (["bash", "-c", "git add $(ls)"], "not one plain command"),
    (["bash", "-c", "GIT_DIR=x git add ."], "not one plain command"),
]


@each_row("argv, reason", REASONS)
def test_anything_else_is_not_and_the_reason_is_told(argv: list[str], reason: str) -> None:
    reading = read_git(argv)
    assert reading is not None
    assert reading.write is None
    assert reason in reading.reason


@each_row("argv", [["ls"], ["bash", "-c", "ls; pwd"], ["bash", "-c", "echo $HOME"], ["./git", "commit"], []])
def test_a_command_without_git_is_none_of_it(argv: list[str]) -> None:
    assert read_git(argv) is None


WORD = st.sampled_from(
    ["-m", "-c", "-C", "--", "-a", "x", "--amend", "--no-edit", "-e", "--edit", "-p", "--git-dir=x", "-"]
)


@pytest.mark.parametrize("verb", GIT_VERBS)
@given(words=st.lists(WORD, max_size=5))
def test_no_words_bring_an_option_that_is_not_listed(verb: str, words: list[str]) -> None:
    """Of what is read, every word that git takes for an option is a listed one, or the value of one."""
    reading = read_git(["git", verb, *words])
    assert reading is not None
    if reading.write is None:
        return
    options = words[: words.index("--")] if "--" in words else words
    for before, word in zip(["", *options], options, strict=False):
        if before != "-m":
            assert word not in ("-c", "-C", "-e", "--edit", "-p", "--git-dir=x")
