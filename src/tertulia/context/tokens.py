"""Session tokens, which identify an agent that calls internal tools, for as long as its conversation is open."""

from __future__ import annotations

import hashlib
import os
import re

import msgspec

from tertulia.context.agent_meta import check_agent_name
from tertulia.context.validation import require_line
from tertulia.errors import InvalidParamsError
from tertulia.events.clock import Clock, SystemClock
from tertulia.policy.redaction import Redactor
from tertulia.policy.token_redaction import VISIBLE_CHARACTERS

TTL_S = 24 * 3600.0
"""How long a token is valid unless it is renewed or revoked."""

_TOKEN = re.compile(r"[0-9a-f]{64}\Z")


class SessionToken(msgspec.Struct, frozen=True):
    """A valid token, and the agent that it identifies. Its repr shows only the token's first characters."""

    token: str
    agent_name: str
    session_id: str
    created_at: float
    """Seconds since 1970 in UTC."""
    pid: int | None = None
    """The id of the process that uses the token, if it is known."""

    def __repr__(self) -> str:
        begins = self.token[:VISIBLE_CHARACTERS]
        return f"SessionToken({begins!r}…, {self.agent_name!r}, {self.session_id!r}, pid={self.pid})"


class SessionTokenStore:
    """The tokens of this process, in memory only, one for each session id; revoked and expired tokens are removed.
    Not thread-safe: used on the loop's thread only.

    A token is looked up by its hash, so that the time taken does not reveal how much of a guess was right. The redactor
    knows each token as soon as it is made; pass the redactor that cleans logs and records.
    """

    def __init__(
        self, clock: Clock | None = None, *, ttl_s: float | None = TTL_S, redactor: Redactor | None = None
    ) -> None:
        if ttl_s is not None and not ttl_s > 0:
            raise InvalidParamsError(f"ttl_s must be above 0, not {ttl_s}")
        self._clock = clock or SystemClock()
        self._ttl_s = ttl_s
        self.redactor = redactor or Redactor()
        """Knows every token of this store."""
        self._by_hash: dict[bytes, SessionToken] = {}
        # Ordered by expiry: all tokens are valid equally long, and a renewed one moves to the end.
        self._sessions: dict[str, tuple[bytes, float]] = {}
        self._agents: dict[str, set[str]] = {}

    @property
    def size(self) -> int:
        """How many tokens are valid."""
        self._sweep()
        return len(self._by_hash)

    def generate(self, agent_name: str, session_id: str, pid: int | None = None) -> str:
        """Make a new token. An older token of this session id is revoked.

        Args:
            agent_name: The agent that the token identifies.
            session_id: The id that the token is bound to.
            pid: The id of the process that uses the token, if it is known.

        Returns:
            32 random bytes as 64 hexadecimal digits.

        Raises:
            InvalidParamsError: The agent's name or the session id is not valid.
        """
        check_agent_name(agent_name)
        require_line("session_id", session_id)
        self._sweep()
        self.revoke_session(session_id)
        token = os.urandom(32).hex()
        self.redactor.register_token(token)
        digest = _hash(token)
        self._by_hash[digest] = SessionToken(token, agent_name, session_id, self._clock.now(), pid)
        self._sessions[session_id] = (digest, self._clock.monotonic())
        self._agents.setdefault(agent_name, set()).add(session_id)
        return token

    def validate(self, token: object) -> SessionToken | None:
        """Look up a token.

        Args:
            token: The value that a caller sent, of any type.

        Returns:
            The entry of the token; None for any value that is not exactly a valid token.
        """
        if not isinstance(token, str) or not _TOKEN.match(token):
            return None
        self._sweep()
        return self._by_hash.get(_hash(token))

    def renew(self, session_id: str, pid: int | None = None) -> bool:
        """Restart the time limit of a token.

        Args:
            session_id: The id that the token is bound to.
            pid: The id of the process that uses the token, if it is known by now.

        Returns:
            False if there is no valid token of this session id.
        """
        self._sweep()
        if session_id not in self._sessions:
            return False
        digest, _ = self._sessions.pop(session_id)
        self._sessions[session_id] = (digest, self._clock.monotonic())
        if pid is not None:
            self._by_hash[digest] = msgspec.structs.replace(self._by_hash[digest], pid=pid)
        return True

    def revoke_session(self, session_id: str) -> bool:
        """Revoke the token of a session.

        Args:
            session_id: The id that the token is bound to.

        Returns:
            Whether there was a token.
        """
        if session_id not in self._sessions:
            return False
        digest, _ = self._sessions.pop(session_id)
        entry = self._by_hash.pop(digest)
        siblings = self._agents[entry.agent_name]
        siblings.discard(session_id)
        if not siblings:
            del self._agents[entry.agent_name]
        self.redactor.retire_token(entry.token)
        return True

    def revoke_by_agent(self, agent_name: str) -> int:
        """Revoke all tokens of an agent.

        Args:
            agent_name: The agent.

        Returns:
            How many tokens were revoked.
        """
        return sum([self.revoke_session(session_id) for session_id in sorted(self._agents.get(agent_name, ()))])

    def _sweep(self) -> None:
        if self._ttl_s is None:
            return
        earliest = self._clock.monotonic() - self._ttl_s
        while self._sessions:
            session_id, (_, renewed_at) = next(iter(self._sessions.items()))
            if renewed_at > earliest:
                break
            self.revoke_session(session_id)

    def __repr__(self) -> str:
        return f"SessionTokenStore({len(self._by_hash)} tokens)"


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
