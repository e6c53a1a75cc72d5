"""An exception in a log says as much as the storage policy allows."""

from __future__ import annotations

import pytest

from tertulia.policy.redaction import describe_error
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl

CANARY = "the user's own words"


def raised() -> BaseException:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise RuntimeError(CANARY) from cause
    except RuntimeError as error:
        return error


def test_with_texts_stored_the_whole_traceback_is_told() -> None:
    """E6"""
    text = describe_error(raised(), Full())

    assert "RuntimeError: " + CANARY in text
    assert "KeyError" in text
    assert "Traceback" in text


@pytest.mark.parametrize("policy", [HeadersOnly(), NoStorage(), Ttl(5)])
def test_without_texts_stored_types_and_places_are_told_and_no_message(policy: StoragePolicy) -> None:
    """E1, E4, E6: nobody sweeps a log, so a text that has to go may not get there."""
    first, second = describe_error(raised(), policy).splitlines()

    assert first.startswith("RuntimeError policy/test_redaction_error_text.py:")
    assert second.startswith("KeyError policy/test_redaction_error_text.py:")
    assert CANARY not in first + second


def test_the_members_of_a_group_are_told() -> None:
    group = ExceptionGroup(CANARY, [ValueError(CANARY), TypeError(CANARY)])

    assert describe_error(group, HeadersOnly()).split() == ["ExceptionGroup", "ValueError", "TypeError"]


def test_a_chain_that_bites_its_tail_ends() -> None:
    error = ValueError(CANARY)
    other = TypeError(CANARY)
    error.__context__, other.__context__ = other, error

    assert describe_error(error, NoStorage()).split() == ["ValueError", "TypeError"]


def test_an_endless_chain_is_cut() -> None:
    error: BaseException = ValueError(CANARY)
    for _ in range(1000):
        outer = ValueError(CANARY)
        outer.__cause__ = error
        error = outer

    assert len(describe_error(error, NoStorage()).splitlines()) == 32
