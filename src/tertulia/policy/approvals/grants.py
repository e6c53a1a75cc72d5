"""What was allowed for longer than a moment: found by key, ended by the clock, listed and taken back."""

from __future__ import annotations

import os

import msgspec

from tertulia.errors import NotFoundError
from tertulia.events.clock import Clock
from tertulia.policy.approval_policy import APPROVAL_ORDER, ApprovalPolicy
from tertulia.policy.approvals.approval_request import ApprovalKind, GrantScope, RequestedAction
from tertulia.policy.commands.command_analysis import GrantKey
from tertulia.policy.commands.named_files import NamedFiles
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.mapping_struct import MappingStruct

MAX_GRANTS = 10_000
"""Above this the oldest is forgotten, and asked for again."""


class IdSequence:
    """Issues ids that it can recognise later without storing them."""

    __slots__ = ("_last", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(8).hex()
        self._last = 0

    def next(self) -> str:
        """A new, random grant id."""
        self._last += 1
        return f"{self._prefix}-{self._last}"

    def gave(self, identity: str) -> bool:
        """Whether this one was given out here."""
        prefix, _, number = identity.partition("-")
        if prefix != self._prefix or len(number) > 18 or not (number.isascii() and number.isdecimal()):
            return False
        return 1 <= int(number) <= self._last and identity == f"{prefix}-{int(number)}"


class Grant(MappingStruct, frozen=True):
    """One grant, as it is listed."""

    grant_id: str
    kind: ApprovalKind
    scope: GrantScope
    conversation_id: ConversationId | None
    """None: it holds in the whole session."""
    matches: list[str]
    expires_in_s: float | None
    """Seconds that are left when it is listed."""
    uses: int = 0
    """How often it has allowed something without a question; that of a project: in this session."""


class _StoredGrant(msgspec.Struct):
    key: GrantKey
    grant: Grant
    policy: ApprovalPolicy
    """The policy under which it was given: where less is allowed, it does not hold."""
    named: NamedFiles
    """The digests of the files at that time."""
    uses: int = 0


class Grants:
    """The grants of a session. An expired one never counts, whether or not it has been swept away."""

    __slots__ = ("_by_key", "_clock", "_ids", "_keys", "_max")

    def __init__(self, clock: Clock, *, max_grants: int = MAX_GRANTS) -> None:
        self._clock = clock
        self._max = max_grants
        self._ids = IdSequence()
        self._by_key: dict[GrantKey, _StoredGrant] = {}
        self._keys: dict[str, GrantKey] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(
        self, request: RequestedAction, policy: ApprovalPolicy, conversation: ConversationId | None, ttl_s: float | None
    ) -> Grant:
        """Allow the same again, in one conversation or in all; a newer grant replaces an older one."""
        key = request.key(conversation, None if ttl_s is None else self._clock.monotonic() + ttl_s)
        self._drop(key)
        if len(self._by_key) >= self._max:
            self._drop(next(iter(self._by_key)))
        scope: GrantScope = "session" if conversation is None else "conversation"
        matches = request.as_event("", policy).matches
        grant = Grant(self._ids.next(), request.kind, scope, conversation, matches, ttl_s)
        self._by_key[key] = _StoredGrant(key, grant, policy, request.named)
        self._keys[grant.grant_id] = key
        return grant

    def use(self, request: RequestedAction, policy: ApprovalPolicy) -> Grant | None:
        """The grant that covers this request, counted as used: its conversation's own, then the session's.

        `policy` is the strictest of the chain. A conversation that was asked by a stricter one cannot lend it a grant.
        """
        for entry in self._for_the_words(request):
            holds = APPROVAL_ORDER.meet(entry.policy, policy) == entry.policy
            if holds and request.named.known and request.named == entry.named:
                entry.uses += 1
                return entry.grant
        return None

    def changed(self, request: RequestedAction) -> tuple[str, ...]:
        """Files that keep a grant for the same words from covering this request, because they are others now."""
        return next((request.named.changed_since(entry.named) for entry in self._for_the_words(request)), ())

    def sweep(self) -> int:
        """Forget what is over; how many there were."""
        over = [entry.key for entry in self._by_key.values() if self._is_over(entry)]
        for key in over:
            self._drop(key)
        return len(over)

    def list(self, conversation: ConversationId | None = None) -> list[Grant]:
        """Those that hold now, oldest first: all, or those that count in one conversation."""
        self.sweep()
        wanted = (None, conversation)
        return [
            self._as_of_now(entry)
            for entry in self._by_key.values()
            if conversation is None or entry.key.conversation in wanted
        ]

    def revoke(self, grant_id: str) -> bool:
        """Take one back; False if it was over already, NotFound if there never was one."""
        if not self._ids.gave(grant_id):
            raise NotFoundError(f"there is no grant {grant_id[:80]!r}")
        key = self._keys.get(grant_id)
        if key is None:
            return False
        # To the caller an expired one is over, though it has not been swept yet.
        held = not self._is_over(self._by_key[key])
        self._drop(key)
        return held

    def forget(self, conversation: ConversationId) -> None:
        """A conversation was closed; nothing of it stays allowed."""
        for key in [key for key in self._by_key if key.conversation == conversation]:
            self._drop(key)

    def _for_the_words(self, request: RequestedAction) -> list[_StoredGrant]:
        found: list[_StoredGrant] = []
        for conversation in (request.conversation_id, None):
            entry = self._by_key.get(request.key(conversation))
            if entry is not None and self._is_over(entry):
                self._drop(entry.key)
            elif entry is not None:
                found.append(entry)
        return found

    def _drop(self, key: GrantKey) -> None:
        entry = self._by_key.pop(key, None)
        if entry is not None:
            del self._keys[entry.grant.grant_id]

    def _is_over(self, entry: _StoredGrant) -> bool:
        ends = entry.key.expires_at
        return ends is not None and ends <= self._clock.monotonic()

    def _as_of_now(self, entry: _StoredGrant) -> Grant:
        ends = entry.key.expires_at
        left = None if ends is None else ends - self._clock.monotonic()
        return msgspec.structs.replace(entry.grant, expires_in_s=left, uses=entry.uses)
