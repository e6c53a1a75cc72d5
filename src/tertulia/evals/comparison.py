"""Compares two results: which tasks changed, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.evals.results import RunRecord
from tertulia.evals.statistics import sign_test
from tertulia.evals.summary import by_candidate, by_task, pass_share

_SURE = 0.05
"""Below this chance a difference is not called noise."""
_FEWEST = 6
"""With fewer changed tasks not even a one-sided change gets below that: 2 / 2**5 is 0.06."""


class TaskChange(msgspec.Struct, frozen=True):
    """A task that both results have, and the shares of its runs that passed."""

    task: str
    before: float
    after: float


class Comparison(msgspec.Struct, frozen=True):
    """Result B against result A, over the tasks that both have."""

    first: str
    second: str
    tasks: int
    before: float
    """The mean share of runs that passed, over those tasks."""
    after: float
    better: tuple[TaskChange, ...]
    worse: tuple[TaskChange, ...]
    left_out: tuple[str, ...]
    """Tasks that only one of them has, or has in another version."""

    @property
    def chance(self) -> float:
        """How often luck alone would change tasks at least so unevenly."""
        return sign_test(len(self.better), len(self.worse))

    @property
    def is_noise(self) -> bool:
        """Whether luck explains it as well."""
        return self.chance >= _SURE

    def verdict(self) -> str:
        """Say in plain words what changed, and whether that is noise."""
        better, worse = len(self.better), len(self.worse)
        if not better and not worse:
            return f"No task changed, of {self.tasks}."
        counts = f"{_tasks(better + worse)} of {self.tasks} changed: {better} better, {worse} worse."
        odds = f"If both were equally good, chance alone would divide them so unevenly {_odds(self.chance)}"
        if not self.is_noise:
            which = self.second if better > worse else self.first
            return f"{counts} {odds}: this is more than noise, {which} is better on these tasks."
        few = f" It takes at least {_FEWEST} changed tasks to tell." if better + worse < _FEWEST else ""
        return f"{counts} {odds}: this may well be noise.{few}"


def compare(
    first: Sequence[RunRecord], second: Sequence[RunRecord], *, first_name: str, second_name: str
) -> Comparison:
    """Compare the runs of two results, each of one candidate. InvalidParams where they share no task."""
    one, other = by_task(first), by_task(second)
    shared = [task for task in one if task in other and _version(one[task]) == _version(other[task])]
    if not shared:
        raise InvalidParamsError(f"{first_name} and {second_name} have no task in common, in the same version")
    changes = [TaskChange(task, pass_share(one[task]), pass_share(other[task])) for task in shared]
    return Comparison(
        first=first_name,
        second=second_name,
        tasks=len(shared),
        before=sum(change.before for change in changes) / len(changes),
        after=sum(change.after for change in changes) / len(changes),
        better=tuple(change for change in changes if change.after > change.before),
        worse=tuple(change for change in changes if change.after < change.before),
        left_out=tuple(sorted({*one, *other} - set(shared))),
    )


def only_candidate(records: Sequence[RunRecord], where: str, name: str | None = None) -> tuple[str, list[RunRecord]]:
    """The runs of the candidate of that name, or of the only one. InvalidParams lists those that there are."""
    found = by_candidate(records)
    names = ", ".join(found)
    if name is not None and name not in found:
        raise InvalidParamsError(f"{where}: has no candidate {name!r:.80}, only {names or 'none'}")
    if name is None and len(found) != 1:
        raise InvalidParamsError(
            f"{where}: has {len(found)} candidates ({names or 'none'}); name one as {where}#CANDIDATE"
        )
    chosen = name if name is not None else next(iter(found))
    return chosen, found[chosen]


def _version(records: Sequence[RunRecord]) -> str:
    return records[-1].task_fingerprint


def _tasks(count: int) -> str:
    return f"{count} task" if count == 1 else f"{count} tasks"


def _odds(chance: float) -> str:
    if chance >= 0.995:
        return "every time"
    return f"{100 * chance:.0f} times in 100" if chance >= 0.01 else f"{1000 * chance:.1f} times in 1,000"
