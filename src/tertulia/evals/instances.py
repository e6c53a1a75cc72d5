"""SWE-bench-like instances: a repository at a commit, a problem, and tests that must pass afterwards.

The repository is a local one, and its files at the commit become the task's own: without `.git`, so that a candidate
cannot look up the solution in the history.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.evals import instance_check
from tertulia.evals.task import TASK_FILE, Task, load_task
from tertulia.evals.task_files import relative_name
from tertulia.evals.workspace import move_whole, temporary_place
from tertulia.protocol.validation_text import explain_validation
from tertulia.session.worktrees.git_runner import Git
from tertulia.tools.threads import run_in_thread

_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}\Z")
_TEST_FILE = re.compile(r"^(?:---|\+\+\+) [ab]/(.+?)\t?$", re.MULTILINE)
_UNITTEST = re.compile(r"(\S+) \((\S+)\)\Z")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a file of instances, by the names that SWE-bench uses. Other fields are ignored."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    patch: str
    """The reference solution, as a diff."""
    test_patch: str
    """Applied before the tests are run; a candidate never sees it."""
    fail_to_pass: str | list[str] = msgspec.field(name="FAIL_TO_PASS")
    pass_to_pass: str | list[str] = msgspec.field(name="PASS_TO_PASS", default_factory=list[str])

    def tests(self, where: str) -> list[str]:
        """All tests that must pass. The two lists may be JSON in a text."""
        return [*_names(self.fail_to_pass, f"{where}FAIL_TO_PASS"), *_names(self.pass_to_pass, f"{where}PASS_TO_PASS")]


class ImportOptions(msgspec.Struct, frozen=True):
    """How tasks are made of instances."""

    repositories: Mapping[str, Path]
    """By the `repo` of an instance; `*` stands for all others."""
    test_command: tuple[str, ...] = ("python3", "-m", "pytest", "-q")
    """The tests are its last arguments."""
    timeout_s: float = 3600.0
    check_timeout_s: float = 1800.0


def read_instances(path: Path) -> list[Instance]:
    """The instances of a JSON or JSONL file. InvalidParams names the entry and the field that cannot be used."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidParamsError(f"{path}: cannot be read: {error.strerror}") from None
    instances = [_convert(path, number, entry) for number, entry in enumerate(_entries(path, content), 1)]
    names = [instance.instance_id for instance in instances]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParamsError(f"{path}: instance_id: {twice!r:.120} occurs twice")
    return instances


def _entries(path: Path, content: bytes) -> list[Any]:
    try:
        if content.lstrip()[:1] == b"[":
            return msgspec.json.decode(content, type=list[Any])
        return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError):
        raise InvalidParamsError(f"{path}: expected a JSON list of instances, or one JSON object a line") from None


def _convert(path: Path, number: int, entry: Any) -> Instance:
    where = f"{path}, instance {number}"
    try:
        instance = msgspec.convert(entry, Instance)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"{where}: {explain_validation(error, Instance)}") from None
    if not _ID.match(instance.instance_id):
        raise InvalidParamsError(f"{where}: instance_id: {instance.instance_id!r:.120} is not the name of a folder")
    if not _COMMIT.match(instance.base_commit):
        raise InvalidParamsError(f"{where}: base_commit: {instance.base_commit!r:.80} is not the hash of a commit")
    if not _names(instance.fail_to_pass, f"{where}: FAIL_TO_PASS"):
        raise InvalidParamsError(f"{where}: FAIL_TO_PASS: names no test, so nothing would be checked")
    for name in _test_files(instance):
        relative_name(name, f"{where}: test_patch")
    return instance


def _names(value: str | list[str], where: str) -> list[str]:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value, type=list[str])
    except msgspec.DecodeError:
        raise InvalidParamsError(f"{where}: expected a list of texts, or one as JSON in a text") from None


def _test_files(instance: Instance) -> list[str]:
    return list(dict.fromkeys(_TEST_FILE.findall(instance.test_patch)))


def test_name(name: str) -> str:
    """A test as a command line names it: `test_a (module.Class)` of unittest is `module.Class.test_a`."""
    found = _UNITTEST.match(name)
    return name if found is None else f"{found[2]}.{found[1]}"


async def import_instances(
    instances: Sequence[Instance], suite: Path, options: ImportOptions, variables: Mapping[str, str]
) -> list[Task]:
    """Make a folder in `suite` for each instance. All or none: a refusal leaves the suite as it was.

    Raises:
        InvalidParamsError: There is no repository for an instance, or a task of its name is there already.
        GitError: Git is not there, or does not know the commit.
    """
    for instance in instances:
        _repository(instance, options)
        if (suite / instance.instance_id).exists():
            raise InvalidParamsError(f"{suite / instance.instance_id}: is there already; remove it, or leave it out")
    async with temporary_place() as place:
        folders = [await _write_task(instance, place, options, variables) for instance in instances]
        await run_in_thread(move_whole, folders, suite)
    return [load_task(suite / instance.instance_id) for instance in instances]


def _repository(instance: Instance, options: ImportOptions) -> Path:
    found = options.repositories.get(instance.repo, options.repositories.get("*"))
    if found is None:
        raise InvalidParamsError(
            f"{instance.instance_id}: no local repository of {instance.repo!r:.120}; give it by "
            f"--repo {instance.repo}=PATH"
        )
    return found


async def _write_task(instance: Instance, place: Path, options: ImportOptions, variables: Mapping[str, str]) -> Path:
    folder = place / instance.instance_id
    check = folder / "check"
    check.mkdir(parents=True)
    (folder / "repo").mkdir()
    await _export(instance, folder / "repo", options, variables)
    (folder / "solution.patch").write_text(instance.patch, encoding="utf-8")
    shutil.copyfile(instance_check.__file__, check / "check.py")
    details = {
        "command": options.test_command,
        "tests": [test_name(name) for name in instance.tests("")],
        "test_files": _test_files(instance),
    }
    (check / "instance.json").write_bytes(msgspec.json.encode(details))
    (check / "test.patch").write_text(instance.test_patch, encoding="utf-8")
    table = {
        "kind": "issue",
        "prompt": instance.problem_statement,
        "git": True,
        "timeout_s": options.timeout_s,
        "check_timeout_s": options.check_timeout_s,
    }
    # Imported here: it is needed for nothing else.
    import tomlkit

    (folder / TASK_FILE).write_text(tomlkit.dumps(table), encoding="utf-8")
    load_task(folder)
    return folder


async def _export(instance: Instance, target: Path, options: ImportOptions, variables: Mapping[str, str]) -> None:
    """Write the files of the commit. Not by `git archive`, which leaves out what an attribute says."""
    source = _repository(instance, options)
    git = await Git.find(source, variables)
    store = (await git.run("rev-parse", "--absolute-git-dir")).decode().strip()
    index = target.parent / "index"
    at = git.at(target, Path(store))
    await at.run("read-tree", instance.base_commit, index=index)
    await at.run("checkout-index", "--all", "--force", index=index)
    index.unlink()
