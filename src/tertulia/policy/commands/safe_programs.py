"""Which options each program may be given so that it only reads. `command_analysis` asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tertulia.policy.commands.git_repository import FORCED


def words(text: str) -> frozenset[str]:
    """A long list, written as a sentence."""
    return frozenset(text.split())


class Options:
    """A list of options: letters that may stand together, letters that take what follows, and long names."""

    __slots__ = ("_flags", "_long", "_valued")

    def __init__(self, flags: str, valued: str, long: str) -> None:
        self._flags = frozenset(flags)
        self._valued = frozenset(valued)
        self._long = words(long)

    def admit(self, arguments: Sequence[str]) -> bool:
        """Whether every word that could be an option is on the list; a long one must be written out."""
        return all(self._admits(word) for word in arguments if word.startswith("-") and word not in ("-", "--"))

    def _admits(self, word: str) -> bool:
        if word.startswith("--"):
            return word[2:].partition("=")[0] in self._long
        for letter in word[1:]:
            if letter in self._valued:
                return True
            if letter not in self._flags:
                return False
        return True


GIT_ENVIRONMENT: Mapping[str, str] = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # `status` would write a new index
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


Rule = Callable[[Sequence[str]], bool]
"""Whether these arguments leave a program a reader."""

SYSTEM_DIRECTORIES = ("", "/bin/", "/usr/bin/")
"""What may stand before a program's name; at any other path may lie any program."""

_PLAIN = words(
    "basename cat cd cksum cmp cut df dirname du echo egrep expr false fgrep grep head id ls md5sum nl "
    "numfmt od paste pwd readlink realpath rev seq sha1sum sha256sum sha512sum stat tac tail tr true uname "
    "wc which whoami"
)
"""No option of theirs writes a file or starts a program.

`printf` and `test` are missing because bash's own can set variables and evaluate arithmetic, which runs commands.
"""

_FIND = words(
    "-H -L -P -a -amin -and -anewer -atime -cmin -cnewer -ctime -d -daystart -depth -empty -executable "
    "-false -follow -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -ls "
    "-maxdepth -mindepth -mmin -mount -mtime -name -newer -newermt -nogroup -not -nouser -o -or -path -perm "
    "-print -print0 -printf -prune -quit -readable -regex -regextype -samefile -size -true -type -uid -user "
    "-wholename -writable -xdev -xtype"
)
_FIND_NUMBER = re.compile(r"-[0-9]+[bcwkMG]?")

_SED_LINES = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?p")

_DATE = re.compile(r"\+.*|-u|--utc|--universal|-R|--rfc-email|-I[a-z]*|--iso-8601(?:=[a-z]+)?|--date=.*", re.DOTALL)

_BASE64 = Options("dDi", "w", "decode ignore-garbage wrap")

_SORT = Options(
    "bdfghiMnRrVcCmsuz",
    "kt",
    "check dictionary-order field-separator general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks "
    "key merge month-sort numeric-sort reverse stable unique version-sort zero-terminated",
)

_UNIQ = Options(
    "cdDiuz",
    "fsw",
    "all-repeated check-chars count group ignore-case repeated skip-chars skip-fields unique zero-terminated",
)

_DIFF = Options(
    "abBcdEiNpqrstuwyZ",
    "CIUx",
    "brief color context exclude ignore-all-space ignore-blank-lines ignore-case ignore-space-change new-file "
    "no-dereference recursive side-by-side text unified",
)

_RIPGREP = Options(
    "acFhHiIlLnNopPqsSuUvwx0",
    "ABCeEfgjmMrtT",
    "after-context before-context case-sensitive color colors context count count-matches files files-with-matches "
    "files-without-match fixed-strings follow glob heading hidden iglob ignore-case invert-match json line-number "
    "line-regexp max-columns max-count max-depth multiline multiline-dotall no-filename no-heading no-ignore "
    "no-ignore-vcs no-line-number no-messages null one-file-system only-matching passthru pcre2 pretty quiet regexp "
    "replace smart-case sort sortr stats text trim type type-list type-not unrestricted version vimgrep with-filename "
    "word-regexp",
)


def _any_arguments(arguments: Sequence[str]) -> bool:
    return True


def _reads_only_find(arguments: Sequence[str]) -> bool:
    return all(
        not word.startswith("-") or word in _FIND or _FIND_NUMBER.fullmatch(word) is not None for word in arguments
    )


def _reads_only_sed(arguments: Sequence[str]) -> bool:
    """`sed -n 10,20p FILE…`: any other script may write files and start programs."""
    match arguments:
        case ["-n", lines, *files]:
            return _SED_LINES.fullmatch(lines) is not None and not any(file.startswith("-") for file in files)
        case _:
            return False


def _reads_only_uniq(arguments: Sequence[str]) -> bool:
    """A second file is the one that is written. A file must come last: there no option is taken for one."""
    if "--" in arguments or not _UNIQ.admit(arguments):
        return False
    return not any(word == "-" or not word.startswith("-") for word in arguments[:-1])


def _reads_only_date(arguments: Sequence[str]) -> bool:
    """A bare number would set the clock."""
    return all(_DATE.fullmatch(word) is not None for word in arguments)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_PLAIN, _any_arguments),
    "base64": _BASE64.admit,
    "date": _reads_only_date,
    "diff": _DIFF.admit,
    "find": _reads_only_find,
    "git": reads_only_git,
    "rg": _RIPGREP.admit,
    "sed": _reads_only_sed,
    "sort": _SORT.admit,
    "uniq": _reads_only_uniq,
}

KNOWN_PROGRAMS = frozenset(_RULES)


def known_program(word: str) -> str | None:
    """The name of a program of this list, or None. `./ls` and `/tmp/ls` are unknown programs."""
    directory, slash, name = word.rpartition("/")
    return name if directory + slash in SYSTEM_DIRECTORIES and name in _RULES else None


def reads_only(words: Sequence[str]) -> bool:
    """Whether this command, run with a `safe_environment`, changes nothing and starts only what is listed."""
    name = known_program(words[0]) if words else None
    return name is not None and _RULES[name](words[1:])
