"""The port for executors, in a session that has none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tertulia.conversation.backend import no_backend
from tertulia.errors import UnsupportedByBackendError
from tests.conversation.conversations import make_conversation, terms


def test_a_session_without_other_agents_says_so() -> None:
    with pytest.raises(UnsupportedByBackendError, match="there is no backend 'codex' here"):
        no_backend(make_conversation(replace(terms(), backend="codex")))
