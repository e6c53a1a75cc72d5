"""The verbs of git that only read."""

from __future__ import annotations

from tertulia.policy.commands.safe_programs import GIT_ENVIRONMENT, reads_only_git
from tests.tables import each_row


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
