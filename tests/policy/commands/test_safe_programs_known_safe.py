"""Programs that only read."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.commands.safe_programs import KNOWN_PROGRAMS, known_program, reads_only
from tests.tables import each_row


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
