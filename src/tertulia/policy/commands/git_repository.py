"""Whether a repository's own files would have git start a program: its configuration, and submodules that have theirs.

Read here without running git. An allowlist of keys: any other key, an include, or a line that is not plain makes the
answer no. So is a place where no repository, or more than git itself would look at, can be read. The user's own
configuration is trusted and not read here.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from tertulia.lazy_pattern import lazy_pattern
from tertulia.policy.plain_file import read_whole_file

MAX_CONFIG_BYTES = 256 * 1024
MAX_INDEX_BYTES = 128 * 1024 * 1024
MAX_DIRECTORIES = 16
"""That a command may be in when it starts git."""

FORCED: Mapping[str, str] = {
    "core.fsmonitor": "false",  # a program that `status` starts
    "core.hookspath": "/dev/null",  # there is a hook for a refreshed index
    "diff.submodule": "short",  # else git is started in the submodule, with the configuration there
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showsignature": "false",
    "safe.barerepository": "explicit",  # a checkout can bring a bare repository, and that its configuration
    "status.submodulesummary": "false",  # a shell script
    "submodule.recurse": "false",
}
"""What a known-safe git is told; it counts more than any file, so in a file it may have any value."""

FORCED_FOR_WRITES: Mapping[str, str] = {
    **FORCED,
    "commit.gpgsign": "false",
    "commit.template": "",
    "commit.verbose": "false",
    "core.askpass": "",
    "core.editor": "false",
    "core.pager": "cat",
    "core.sshcommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoresubmodules": "all",
    "gc.auto": "0",  # a commit would start it
    "maintenance.auto": "false",
    "sequence.editor": "false",
    "tag.forcesignannotated": "false",
    "tag.gpgsign": "false",
}
"""What a git is told that adds, commits, and makes branches and tags."""
_UNOBEYED_BY_WRITES = frozenset(
    {"alias", "browser", "credential", "diff", "difftool", "filter", "gitflow", "gpg", "gui", "help", "interactive"}
    | {"lfs", "man", "merge", "mergetool", "pager", "sendemail", "svn", "svn-remote", "uploadpack", "url", "web"}
)
"""Sections that such a git does not obey: they belong to other verbs, or a filter, which is told to do nothing."""

_ANY = "*"
_KEYS: Mapping[str, str] = {
    "advice": _ANY,
    "author": "email name",
    "branch": "autosetupmerge autosetuprebase description gh-merge-base github-pr-owner-number merge mergeoptions "
    "pushremote rebase remote sort vscode-merge-base",
    "color": _ANY,
    "column": _ANY,
    "commit": "cleanup gpgsign status verbose",
    "committer": "email name",
    "core": "abbrev attributesfile autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar "
    "commitgraph compression eol excludesfile filemode filesreflocktimeout fsync fsyncmethod ignorecase "
    "logallrefupdates longpaths loosecompression multipackindex packedgitlimit packedrefstimeout precomposeunicode "
    "preferreadyindex preloadindex protecthfs protectntfs quotepath repositoryformatversion restrictinheritedhandles "
    "safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex symlinks trustctime untrackedcache "
    "usereplacerefs warnambiguousrefs whitespace worktree",
    "diff": "algorithm colormoved colormovedws context ignoresubmodules indentheuristic interhunkcontext "
    "mnemonicprefix noprefix relative renamelimit renames statgraphwidth statnamewidth suppressblankempty wordregex",
    "extensions": "noop preciousobjects refstorage relativeworktrees worktreeconfig",
    "feature": "experimental manyfiles",
    "fetch": "fsckobjects parallel prune prunetags showforcedupdates writecommitgraph",
    "gc": _ANY,
    "http": _ANY,
    "i18n": "commitencoding logoutputencoding",
    "index": "recordendofindexentries recordoffsettable skiphash sparse threads version",
    "init": "defaultbranch",
    "lfs": "repositoryformatversion",
    "log": "abbrevcommit date decorate follow",
    "maintenance": "auto strategy",
    "merge": "conflictstyle ff renames stat",
    "pack": _ANY,
    "pull": "ff rebase",
    "push": "autosetupremote default followtags",
    "rebase": "autosquash autostash stat updaterefs",
    "receive": "denycurrentbranch denydeletes denynonfastforwards fsckobjects",
    "remote": "fetch gh-resolved mirror prune prunetags push pushdefault pushurl skipdefaultupdate tagopt url",
    "rerere": "autoupdate enabled",
    "status": "branch short showuntrackedfiles",
    "submodule": "active branch ignore path url",
    "tag": "gpgsign sort",
    "transfer": "fsckobjects hiderefs",
    "user": "email name signingkey useconfigonly",
    "versionsort": _ANY,
}
"""Sections and their keys that start nothing while git reads: none of the known-safe verbs goes to the network."""

_PLAIN_SUBSECTIONS = frozenset({"branch", "color", "http", "remote", "submodule"})
"""Sections in which a name between section and key changes nothing; of others it makes a driver, or is not known."""

_KNOWN = {section: frozenset(keys.split()) for section, keys in _KEYS.items()}

_EMPTY = lazy_pattern(rb"[ \t]*(?:[#;][^\x00]*)?")
_SECTION = lazy_pattern(rb'[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"([^"\\\x00-\x1f]*)")?\][ \t]*')
_SETTING = lazy_pattern(rb"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[^\x00-\x08\x0b-\x1f]*)?")

_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of an entry of the index that is another repository."""
_MODES = frozenset({_GITLINK, *(mode.to_bytes(4, "big") for mode in (0o40000, 0o100644, 0o100755, 0o120000))})
_ENTRY_BYTES = 62
"""Of an entry before its path, where ids have 20 bytes; with longer ones `extensions.objectformat` says so."""


def git_starts_nothing(directories: Iterable[str], roots: Sequence[str]) -> bool:
    """Whether git, started in any of these directories with what is `FORCED`, starts no program of a repository.

    Only within these roots: elsewhere a command may see other files at a path than we do. Reads files; takes long only
    for a large index.
    """
    wanted = list(dict.fromkeys(directories))
    if not wanted or len(wanted) > MAX_DIRECTORIES:
        return False
    try:
        return all(_is_within(place, roots) and _is_plain(place) for place in map(os.path.realpath, wanted))
    except (OSError, ValueError):
        return False


class _ToldOrUnobeyed:
    """The names of settings that a git which writes is told itself, or does not obey."""

    def __contains__(self, name: object) -> bool:
        return name in FORCED_FOR_WRITES or str(name).partition(".")[0] in _UNOBEYED_BY_WRITES


def why_git_may_not_write(store: str) -> str | None:
    """Why git is not to add or commit to the repository whose `.git` directory this is; None where it may. Reads files.

    It may where each setting is known to start nothing, is one that we set ourselves, or is not obeyed; where nothing
    is included, no other common directory is named, and no submodule is there, which has settings of its own.
    """
    try:
        if os.path.lexists(os.path.join(store, "commondir")):
            return "its `.git` names another directory as the common one"
        for config in _configs(store):
            foreign = _foreign_setting(config, _ToldOrUnobeyed())
            if foreign is not None:
                return f"its configuration has {foreign}, of which it is not known that it starts no program"
        if not all(map(_has_no_submodule, _indexes(store))):
            return "it has submodules"
    except (OSError, ValueError) as error:
        return f"its settings or its index cannot be read ({error})"
    return None


def settings_that_may_start(config: bytes) -> tuple[tuple[str, bytes], ...]:
    """The lines of a configuration, each with its section, that may have git start a program or read other files.

    Here what is `FORCED` counts too. Of a section that is not plain every line does.
    """
    found: list[tuple[str, bytes]] = []
    section, subsection = "", None
    for line in config.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.removesuffix(b"\r")
        if _EMPTY.fullmatch(line):
            continue
        if (header := _SECTION.fullmatch(line)) is not None:
            section, subsection = header[1].decode().lower(), header[2]
        elif not _starts_nothing(section, subsection, line, forced=()):
            found.append((f"{section}.{subsection!r}", line))
            section = "" if line.lstrip().startswith(b"[") else section
    return tuple(found)


def _is_plain(directory: str) -> bool:
    """Every repository is looked at that git could find from here, though it takes only the nearest one."""
    found = False
    for place in _upwards(directory):
        if looks_bare(place):
            return False
        entry = os.path.join(place, ".git")
        if not os.path.lexists(entry):
            continue
        found = True
        store = entry if os.path.isdir(entry) else _named_store(entry, place)
        if not all(map(_is_plain_config, _configs(store))) or not all(map(_has_no_submodule, _indexes(store))):
            return False
    return found


def _upwards(directory: str) -> Iterator[str]:
    while True:
        yield directory
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


def _is_within(path: str, roots: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{root.rstrip('/')}/") for root in roots)


def looks_bare(place: str) -> bool:
    """Whether git would take a directory itself for a repository, without a `.git` in it."""
    return all(os.path.lexists(os.path.join(place, name)) for name in ("HEAD", "objects", "refs"))


def _named_store(entry: str, place: str) -> str:
    word, _, path = read_whole_file(entry, MAX_CONFIG_BYTES).decode().rstrip("\r\n").partition("gitdir: ")
    if word or not path:
        raise ValueError("a .git file that names no store")
    return os.path.join(place, path)


def _configs(store: str) -> Iterator[str]:
    shared = os.path.join(store, "commondir")
    common = store
    if os.path.lexists(shared):
        common = os.path.join(store, read_whole_file(shared, MAX_CONFIG_BYTES).decode().rstrip("\r\n"))
    yield os.path.join(common, "config")
    for folder in {store, common}:
        if os.path.lexists(own := os.path.join(folder, "config.worktree")):
            yield own


def _indexes(store: str) -> Iterator[str]:
    for name in os.listdir(store):
        if name == "index" or name.startswith("sharedindex."):
            yield os.path.join(store, name)


def _is_plain_config(path: str) -> bool:
    return _foreign_setting(path, FORCED.keys()) is None


def _foreign_setting(path: str, forced: Container[str]) -> str | None:
    """The first line, as section and words, that is not known to start nothing; None where there is none."""
    section, subsection = "", None
    for line in read_whole_file(path, MAX_CONFIG_BYTES).removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.removesuffix(b"\r")
        if _EMPTY.fullmatch(line):
            continue
        if (header := _SECTION.fullmatch(line)) is not None:
            section, subsection = header[1].decode().lower(), header[2]
        elif not _starts_nothing(section, subsection, line, forced):
            return f"[{section}] {line.decode('utf-8', 'replace').strip()[:80]!r}"
    return None


def _starts_nothing(section: str, subsection: bytes | None, line: bytes, forced: Container[str]) -> bool:
    setting = _SETTING.fullmatch(line)
    if setting is None or line.endswith(b"\\"):
        return False
    key = setting[1].decode().lower()
    known = _KNOWN.get(section, frozenset[str]())
    if subsection is not None:
        name = f"{section}.{subsection.decode('latin-1')}.{key}"
        return name in forced or (section in _PLAIN_SUBSECTIONS and (key in known or _ANY in known))
    return f"{section}.{key}" in forced or key in known or _ANY in known


def _has_no_submodule(path: str) -> bool:
    data = read_whole_file(path, MAX_INDEX_BYTES)
    if _GITLINK not in data:
        return True
    # The bytes may be anything: a size, a part of an id. Which they are says only the entry they stand in.
    if data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in (2, 3):
        return False
    return _GITLINK not in _modes(data)


def _modes(data: bytes) -> Iterator[bytes]:
    position = 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        mode = data[position + 24 : position + 28]
        if mode not in _MODES:
            raise ValueError("no index that is known")
        yield mode
        extended = data[position + 60] & 0x40
        begins = position + _ENTRY_BYTES + (2 if extended else 0)
        # One to eight NUL follow a path, so that the length of an entry is a multiple of eight.
        position += (data.index(b"\0", begins) - position + 8) // 8 * 8
