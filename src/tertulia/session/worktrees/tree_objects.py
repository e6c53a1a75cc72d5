"""Writes the copies of changed files as objects of their repository, converted (line ends, for example) as git would.

Git decides by the path of a file what to convert. So copies to be converted are laid out under their paths in a tree of
their own, with the changed attribute files; git reads all other attribute files from the index.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import GitError
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.tree_files import LINK, CopiedFile, LeftOut
from tertulia.tools.threads import run_in_thread

_ATTRIBUTES = b".gitattributes"
_NOT_TAKEN = "git cannot convert it as its attributes say"

Hashed = list[tuple[CopiedFile, bytes]]
"""Each file with the id of its object."""


async def write_objects(
    git: Git, index: Path | None, folder: Path, files: Sequence[CopiedFile], decided: Container[bytes]
) -> tuple[Hashed, list[LeftOut]]:
    """Write each copied file as an object; returns also the files that git cannot convert.

    `decided`: the paths for which attributes are set. The index must not list deleted files any more.
    """
    converts = await git.run("config", "--get-regexp", r"^core\.(autocrlf|eol)$", accepted=(0, 1), index=index)
    everywhere = any(line.endswith((b" true", b" input", b" crlf")) for line in converts.splitlines())
    plain: list[CopiedFile] = []
    by_path: list[CopiedFile] = []
    for file in files:
        (by_path if file.mode != LINK and (everywhere or file.path in decided) else plain).append(file)
    hashed: Hashed = []
    if plain:
        here = replace(git, directory=folder)
        stdin = "".join(f"{file.name}\n" for file in plain).encode()
        ids = (await here.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=stdin)).split()
        hashed += zip(plain, ids, strict=True)
    if not by_path:
        return hashed, []
    tree = folder / "tree"
    await run_in_thread(_lay_out, folder, tree, [*by_path, *filter(_names_attributes, plain)])
    there = replace(git, directory=tree, variables={**git.variables, "GIT_WORK_TREE": str(tree)})
    converted, left_out = await _convert(there, index, by_path)
    return hashed + converted, left_out


async def _convert(git: Git, index: Path | None, files: Sequence[CopiedFile]) -> tuple[Hashed, list[LeftOut]]:
    """Convert all files in one call. Where that fails, since git does not name the file, try each by itself."""
    stdin = b"".join(_quoted(file.path) for file in files)
    try:
        ids = (await git.run("hash-object", "-w", "--stdin-paths", stdin=stdin, index=index)).split()
        return list(zip(files, ids, strict=True)), []
    except GitError:
        hashed: Hashed = []
        left_out: list[LeftOut] = []
        for file in files:
            try:
                id = await git.run("hash-object", "-w", "--stdin-paths", stdin=_quoted(file.path), index=index)
                hashed.append((file, id.strip()))
            except GitError:
                left_out.append(LeftOut(os.fsdecode(file.path), _NOT_TAKEN))
        if not hashed and len(files) > 1:
            # All fail, so the cause is not one file: the disk may be full.
            raise
        return hashed, left_out


def _names_attributes(file: CopiedFile) -> bool:
    return file.mode != LINK and os.path.basename(file.path) == _ATTRIBUTES


def _lay_out(folder: Path, tree: Path, files: Sequence[CopiedFile]) -> None:
    for file in files:
        place = tree / os.fsdecode(file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).rename(place)


def _quoted(path: bytes) -> bytes:
    """The path as a quoted line, as git reads it from a list."""
    for character, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\r", b"\\r")):
        path = path.replace(character, escaped)
    return b'"%s"\n' % path
