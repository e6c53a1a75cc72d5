"""The verbs of git that only read, and the options with which they still do.

What no list of options can rule out: the configuration of a repository can name programs (filters, text converters,
external diffs). What GIT_ENVIRONMENT can switch off is off; for the rest `git_repository` reads the configuration, and
where that is not plain the command is asked about. The index, a cache that some of these verbs would refresh, is the
sandbox's to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tertulia.policy.git_repository import FORCED
from tertulia.policy.known_options import Options

GIT_ENVIRONMENT: Mapping[str, str] = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # `status` would write the index anew
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(FORCED)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(FORCED)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(FORCED.values())},
}
"""Nothing here hides the user's own settings but those that start programs."""

_HISTORY = Options(
    "0123456789abcEFgimpPqrRstwz",
    "CGLMnSU",
    "abbrev abbrev-commit after all ancestry-path author before binary branches cached check color committer "
    "compact-summary cumulative date date-order decorate diff-algorithm diff-filter exit-code find-copies find-renames "
    "first-parent follow format full-history full-index function-context graph grep histogram ignore-all-space "
    "ignore-blank-lines ignore-space-at-eol ignore-space-change left-right max-count merge-base merges minimal "
    "name-only name-status no-abbrev-commit no-color no-decorate no-ext-diff no-merges no-patch no-renames no-textconv "
    "numstat oneline patch patience pretty quiet raw relative remotes reverse shortstat simplify-by-decoration since "
    "skip source staged stat summary tags text topo-order unified until word-diff",
)


def _listing(options: Options) -> Callable[[Sequence[str]], bool]:
    """For verbs that change something as soon as they are given a name."""

    def rule(arguments: Sequence[str]) -> bool:
        return all(word.startswith("-") and word not in ("-", "--") for word in arguments) and options.admit(arguments)

    return rule


_VERBS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "blame": Options("bcCeflMnpstw", "L", "date line-porcelain porcelain root show-email show-name").admit,
    "branch": _listing(Options("arv", "", "all color list no-color remotes show-current verbose")),
    "cat-file": Options("epst", "", "").admit,
    "describe": Options("", "", "abbrev all always contains dirty exact-match long match tags").admit,
    "diff": _HISTORY.admit,
    "grep": Options("cEFGhHiIlLnoPqvwWz", "ABCem", "cached count files-with-matches line-number untracked").admit,
    "log": _HISTORY.admit,
    "ls-files": Options(
        "cdmorstuvz", "x", "cached deleted directory exclude exclude-standard full-name ignored modified others stage"
    ).admit,
    "ls-tree": Options("dlrtz", "", "abbrev full-name full-tree long name-only name-status").admit,
    "remote": _listing(Options("v", "", "verbose")),
    "rev-parse": Options(
        "q",
        "",
        "abbrev-ref git-common-dir git-dir is-bare-repository is-inside-work-tree quiet short show-prefix "
        "show-toplevel symbolic-full-name verify",
    ).admit,
    "show": _HISTORY.admit,
    "status": Options(
        "bsvz",
        "u",
        "ahead-behind branch ignored long no-ahead-behind no-renames porcelain renames short show-stash "
        "untracked-files verbose",
    ).admit,
    "tag": _listing(Options("l", "", "list")),
}


def reads_only_git(arguments: Sequence[str]) -> bool:
    """Whether `git` with these arguments changes nothing and starts nothing but what a configuration names.

    Before the verb only `--no-pager` may stand: `-c` sets any configuration, `-C` and `--git-dir` choose another one.
    """
    match arguments:
        case ["--no-pager", verb, *words] | [verb, *words] if verb in _VERBS:
            # A format may ask for a signature, and that is a program's to check.
            return not any("%G" in word for word in words) and _VERBS[verb](words)
        case _:
            return False
