"""The programs that only read, and the options with which they still do.

Options are listed, not forbidden: one that is not known here, or is new in tomorrow's version, is asked about.
Every word that begins with a dash is held against the list, also after `--` and where it is an option's value,
because only the program itself knows which of the two it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tertulia.policy.known_git import reads_only_git
from tertulia.policy.known_options import Options, words

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
    """A second file is the one that is written. A file must come last: there nobody takes an option for one."""
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
    """The name of a program of this list, or None. `./ls` and `/tmp/ls` are programs that nobody knows."""
    directory, slash, name = word.rpartition("/")
    return name if directory + slash in SYSTEM_DIRECTORIES and name in _RULES else None


def reads_only(words: Sequence[str]) -> bool:
    """Whether this command, run with a `safe_environment`, changes nothing and starts only what is listed."""
    name = known_program(words[0]) if words else None
    return name is not None and _RULES[name](words[1:])
