"""The error tree: complete, drawn as it is, and each with a code that never changes."""

from __future__ import annotations

import re

import pytest

from tertulia import errors
from tertulia.errors import (
    ApprovalDeniedError,
    BusyError,
    InvalidParamsError,
    NoApproverError,
    SandboxError,
    SandboxUnavailableError,
    TertuliaError,
)
from tests.tables import each_row

# What clients compare with, from the design. A name may be added here, and none may be changed.
CODES = {
    "approval_denied",
    "awaiting_result",
    "busy",
    "cancelled",
    "closed",
    "budget_exceeded",
    "depth_exceeded",
    "git_error",
    "hook_failed",
    "hook_refused",
    "internal",
    "invalid_output",
    "invalid_params",
    "invalid_request",
    "limit",
    "outcome_unknown",
    "mcp_error",
    "merge_conflict",
    "method_not_found",
    "model_error",
    "no_approver",
    "no_model",
    "not_found",
    "not_initialized",
    "not_running",
    "parse_error",
    "sandbox_error",
    "sandbox_unavailable",
    "storage_error",
    "storage_policy_violation",
    "timeout",
    "tool_conflict",
    "unsupported_by_backend",
}


def classes() -> list[type[TertuliaError]]:
    return [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, TertuliaError)]


@each_row(
    "name",
    [
        *(
            "TaskCancelledError",
            "TaskTimeoutError",
            "ApprovalDeniedError",
            "SandboxError",
            "McpError",
            "ToolConflictError",
        ),
        *("StoragePolicyViolationError", "InternalError"),
        *("NotFoundError", "InvalidParamsError", "BusyError", "ClosedError", "DepthExceededError"),
    ],
)
def test_every_error_that_the_design_names_is_there(name) -> None:
    """S002-06, X-38"""
    assert issubclass(getattr(errors, name), TertuliaError)


def test_the_codes_are_those_of_the_design_and_no_two_are_the_same() -> None:
    """S002-06"""
    codes = [error.code for error in classes() if error is not TertuliaError]
    assert sorted(codes) == sorted(CODES)
    assert TertuliaError.code == "agent_error"


def test_a_code_belongs_to_the_class_and_not_to_its_parent() -> None:
    assert (ApprovalDeniedError.code, NoApproverError.code) == ("approval_denied", "no_approver")
    assert (SandboxError.code, SandboxUnavailableError.code) == ("sandbox_error", "sandbox_unavailable")
    with pytest.raises(ApprovalDeniedError):
        raise NoApproverError("nobody is connected")


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    drawn = re.findall(r"[├└]── ([A-Z]\w+)", errors.__doc__ or "")
    assert sorted(drawn) == sorted(error.__name__ for error in classes() if error is not TertuliaError)


def test_every_error_says_what_it_means() -> None:
    assert all((error.__doc__ or "").strip() for error in classes())


def test_an_error_has_a_sentence_for_people_and_detail_for_programs() -> None:
    error = BusyError("the slot is taken", retry_after_s=1.5)
    assert str(error) == error.message == "the slot is taken"
    assert error.detail == {"retry_after_s": 1.5}
    assert InvalidParamsError("no").detail == {}
