"""Grants that hold for a project: kept in a file of the user's until they expire or are revoked, never in the project.

Like every grant one is bound to the words, the directory, the environment and the sandbox, and to the content of the
files that the words name. Whether it still holds is read from the file at each request: another process may have
revoked it. A date that was set back does not prolong one: before the moment it was given it does not hold.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tertulia.events.clock import Clock
from tertulia.policy.approval_policy import APPROVAL_ORDER, ApprovalPolicy
from tertulia.policy.approvals.approval_request import ApprovalKind, GrantScope, RequestedAction
from tertulia.policy.approvals.grants import Grant, Grants
from tertulia.policy.commands.named_files import NamedFile, NamedFiles
from tertulia.policy.private_file import PrivateFile, VersionedContent
from tertulia.protocol.ids import ConversationId

FILE_NAME = "grants.json"
MAX_GRANTS = 1_000
"""Above this the oldest is forgotten, and asked for again."""
PROJECT_GRANT_TTL_S = 30 * 86_400.0
_PREFIX = "project-"


class ProjectGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One grant as it is stored."""

    grant_id: str
    project: str
    """The directory that it holds for, canonical."""
    kind: ApprovalKind
    binding: str
    """The digest of words, directory, environment and sandbox."""
    policy: ApprovalPolicy
    """The policy under which it was given: where less is allowed, it does not hold."""
    files: tuple[NamedFile, ...]
    """The digests of the files that its words name."""
    matches: list[str]
    """All that it matches, for people; secrets are replaced."""
    given_at: float
    expires_at: float
    """Both in seconds since 1970."""

    def holds_at(self, now: float) -> bool:
        """Whether it has begun and not expired."""
        return self.given_at <= now < self.expires_at

    def as_grant(self, now: float, uses: int = 0) -> Grant:
        """The grant in the form in which `approval/grants` lists it."""
        return Grant(self.grant_id, self.kind, "project", None, self.matches, self.expires_at - now, uses)


class _File(VersionedContent, frozen=True):
    grants: list[ProjectGrant] = msgspec.field(default_factory=list)
    """The oldest stands first, and is the first to go."""


class GrantsFile:
    """The stored grants of all projects. Where the file cannot be relied on, none holds."""

    __slots__ = ("_cached", "_clock", "_file", "path")

    def __init__(self, home: Path, clock: Clock) -> None:
        self.path = home / FILE_NAME
        self._file = PrivateFile(self.path, _File)
        self._clock = clock
        self._cached: tuple[object, list[ProjectGrant]] = (None, [])

    def read(self) -> list[ProjectGrant]:
        """Those that hold now, oldest first. OSError or ValueError where the file cannot be relied on."""
        now = self._clock.now()
        return [grant for grant in self._stored() if grant.holds_at(now)]

    def holding(self) -> list[ProjectGrant]:
        """Those that hold now; none where the file cannot be relied on, which `read` tells."""
        try:
            return self.read()
        except (OSError, ValueError):
            return []

    def add(self, grant: ProjectGrant) -> None:
        """Store one; a newer one for the same replaces an older. StorageError where it cannot be written."""
        with self._file.locked():
            others = [
                other
                for other in self.holding()
                if (other.project, other.kind, other.binding) != (grant.project, grant.kind, grant.binding)
            ]
            self._file.write(_File(grants=[*others, grant][-MAX_GRANTS:]))

    def revoke(self, grant_id: str) -> bool:
        """Take one back, in whatever project; False where there is none, or none that holds."""
        return self._remove(lambda grant: grant.grant_id == grant_id) > 0

    def forget(self, project: str) -> int:
        """Take back all that hold for a project; how many there were."""
        return self._remove(lambda grant: grant.project == project)

    def sweep(self) -> None:
        """Remove what is over from the file, so that its words are not kept longer than they count."""
        if self.path.exists() and len(self._stored_or_none()) > len(self.holding()):
            self._remove(lambda grant: False)

    def _remove(self, is_meant: Callable[[ProjectGrant], bool]) -> int:
        if not self.path.exists():
            return 0
        with self._file.locked():
            held = self.holding()
            left = [grant for grant in held if not is_meant(grant)]
            if len(left) < len(self._stored_or_none()):
                self._file.write(_File(grants=left))
            return len(held) - len(left)

    def _stored(self) -> list[ProjectGrant]:
        """All in the file, whether or not they hold; read again only where the file is another one."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return []
        identity = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if self._cached[0] != identity:
            self._cached = (identity, self._file.load().grants)
        return self._cached[1]

    def _stored_or_none(self) -> list[ProjectGrant]:
        try:
            return self._stored()
        except (OSError, ValueError):
            return []


class ProjectGrants:
    """What the approval queue of a session sees of that file: the grants of its project."""

    __slots__ = ("_clock", "_file", "_project", "_redact", "_ttl_s", "_uses")

    def __init__(
        self, file: GrantsFile, project: str, clock: Clock, *, ttl_s: float, redact: Callable[[str], str] = str
    ) -> None:
        """`ttl_s`: how long one holds whose answer does not say. `redact` replaces secrets in what is stored."""
        self._file = file
        self._project = project
        self._clock = clock
        self._ttl_s = ttl_s
        self._redact = redact
        self._uses: Counter[str] = Counter()
        """Of this session only: to write the file at every use would cost each command a write."""

    def add(self, request: RequestedAction, policy: ApprovalPolicy, ttl_s: float | None) -> Grant:
        """Allow the same again in this project. StorageError where that cannot be stored: nothing is allowed then."""
        now = self._clock.now()
        grant = ProjectGrant(
            grant_id=f"{_PREFIX}{os.urandom(6).hex()}",
            project=self._project,
            kind=request.kind,
            binding=request.subject.digest,
            policy=policy,
            files=request.named.files,
            matches=[self._redact(line) for line in request.as_event("", policy).matches],
            given_at=now,
            expires_at=now + (self._ttl_s if ttl_s is None else ttl_s),
        )
        self._file.add(grant)
        return grant.as_grant(now)

    def use(self, request: RequestedAction, policy: ApprovalPolicy) -> Grant | None:
        """The grant that covers this request, counted as used; `policy` is the strictest of the chain."""
        for grant in self._for_the_words(request):
            holds = APPROVAL_ORDER.meet(grant.policy, policy) == grant.policy
            if holds and request.named.known and request.named.files == grant.files:
                self._uses[grant.grant_id] += 1
                return grant.as_grant(self._clock.now())
        return None

    def changed(self, request: RequestedAction) -> tuple[str, ...]:
        """Files that keep a grant for the same words from covering this request, because they are others now."""
        return next(
            (request.named.changed_since(NamedFiles(grant.files)) for grant in self._for_the_words(request)), ()
        )

    def list(self) -> list[Grant]:
        """The grants of this project that hold now, oldest first."""
        now = self._clock.now()
        held = [grant for grant in self._file.holding() if grant.project == self._project]
        return [grant.as_grant(now, self._uses[grant.grant_id]) for grant in held]

    def revoke(self, grant_id: str) -> bool | None:
        """Take one of this project back; whether it held. None where the id is none of a project's grant."""
        if not grant_id.startswith(_PREFIX):
            return None
        own = any(grant.grant_id == grant_id and grant.project == self._project for grant in self._file.holding())
        return own and self._file.revoke(grant_id)

    def _for_the_words(self, request: RequestedAction) -> list[ProjectGrant]:
        wanted = (self._project, request.kind, request.subject.digest)
        return [grant for grant in self._file.holding() if (grant.project, grant.kind, grant.binding) == wanted]


class AllGrants:
    """The grants of a session and those of its project, asked together; the session's own count first."""

    __slots__ = ("_default_ttl_s", "_project", "_session")

    def __init__(self, session: Grants, project: ProjectGrants | None, default_ttl_s: float | None) -> None:
        """`project` None: no yes for the project is offered. `default_ttl_s`: of the session's, None: no end."""
        self._session = session
        self._project = project
        self._default_ttl_s = default_ttl_s

    def scopes(self, request: RequestedAction) -> tuple[GrantScope, ...]:
        """How far a yes to this request can reach here."""
        return tuple(scope for scope in request.scopes if scope != "project" or self._project is not None)

    def add(self, request: RequestedAction, policy: ApprovalPolicy, scope: GrantScope, ttl_s: float | None) -> Grant:
        """Allow the same again within this scope, for so long; a newer grant replaces an older one."""
        if scope == "project" and self._project is not None:
            return self._project.add(request, policy, ttl_s)
        conversation = request.conversation_id if scope == "conversation" else None
        return self._session.add(request, policy, conversation, self._default_ttl_s if ttl_s is None else ttl_s)

    def use(self, request: RequestedAction, policy: ApprovalPolicy) -> Grant | None:
        """The grant that covers this request, counted as used; `policy` is the strictest of the chain."""
        grant = self._session.use(request, policy)
        return self._project.use(request, policy) if grant is None and self._project is not None else grant

    def changed(self, request: RequestedAction) -> tuple[str, ...]:
        """Files that keep a grant for the same words from covering this request, because they are others now."""
        changed = self._session.changed(request)
        return self._project.changed(request) if not changed and self._project is not None else changed

    def list(self, conversation: ConversationId | None = None) -> list[Grant]:
        """Those that hold now, the project's first: all, or those that count in one conversation."""
        return [*(self._project.list() if self._project is not None else ()), *self._session.list(conversation)]

    def revoke(self, grant_id: str) -> bool:
        """Take one back; False if it was over already, NotFound if there never was one."""
        revoked = None if self._project is None else self._project.revoke(grant_id)
        return self._session.revoke(grant_id) if revoked is None else revoked
