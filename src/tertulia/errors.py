"""Every error a user of Tertulia can meet, each with a stable code.

    TertuliaError
    ├── the request is wrong
    │   ├── InvalidParamsError            a value that cannot be accepted; says which and why
    │   │   └── NoModelError              no model is named, and none can be found; says how to get one
    │   ├── ParseError                    a line that is not JSON
    │   ├── InvalidRequestError           JSON, but not a request
    │   ├── MethodNotFoundError           no such operation
    │   └── NotInitializedError           the connection has not said `initialize` yet
    ├── the thing addressed is not there, or not now
    │   ├── NotFoundError                 it never existed
    │   ├── ClosedError                   it existed and was closed
    │   ├── BusyError                     another task or process has it; carries retry advice
    │   ├── NotRunningError               there is no task to steer
    │   ├── AwaitingResultError           it waits for the answer of another conversation
    │   ├── MergeConflictError            what is to be merged and what is there contradict each other
    │   └── UnsupportedByBackendError     this conversation's backend cannot do it
    ├── a limit was reached
    │   ├── DepthExceededError            too many conversations wait for one another
    │   ├── LimitError                    a configured limit, named in the message
    │   │   └── BudgetExceededError       the session may use no more tokens, or no more money
    │   ├── TaskTimeoutError              a deadline passed
    │   ├── OutcomeUnknownError           a crash cut it: it may have had its effect, and is not repeated unasked
    │   └── TaskCancelledError            the task was stopped
    ├── it is not allowed
    │   ├── ApprovalDeniedError
    │   │   └── NoApproverError           no approver is there, or none may be asked
    │   ├── HookRefusedError              a hook of the user said no
    │   │   └── HookFailedError           a hook gave no answer that can be used, where that counts as a no
    │   └── StoragePolicyViolationError   a write that the storage policy forbids
    └── a part failed
        ├── ModelError                    the model or the way to it
        ├── InvalidOutputError            the model's answer does not fit the schema that was asked for
        ├── McpError                      an MCP server
        ├── StorageError                  the record of a session; names the file
        ├── SandboxError
        │   └── SandboxUnavailableError
        ├── GitError                      git is not there or too old, is in no repository here, or failed
        ├── ToolConflictError             two tools claim one name
        └── InternalError                 a bug of Tertulia

`code` is spelled on the class and stays, whatever the class is called; every surface shows it. An error's `detail`
holds plain data (numbers, strings, lists) and never the text of a conversation: it is shown, logged and sent over
wires.
"""

from __future__ import annotations

from collections.abc import Sequence

Detail = str | int | float | bool | None | list[str]


class TertuliaError(Exception):
    """The root: a sentence for people, a code for programs, and a little detail."""

    code: str = "agent_error"

    def __init__(self, message: str, **detail: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


class InvalidParamsError(TertuliaError):
    """A value that cannot be accepted; the message says which one and why."""

    code = "invalid_params"


class NoModelError(InvalidParamsError):
    """The settings name no model, and none can be found; the message lists the ways to get one."""

    code = "no_model"


class ParseError(TertuliaError):
    """Bytes that are not JSON."""

    code = "parse_error"


class InvalidRequestError(TertuliaError):
    """JSON that is not a request."""

    code = "invalid_request"


class MethodNotFoundError(TertuliaError):
    """No operation of that name."""

    code = "method_not_found"


class NotInitializedError(TertuliaError):
    """The connection has not said `initialize` yet."""

    code = "not_initialized"


class NotFoundError(TertuliaError):
    """What was addressed never existed."""

    code = "not_found"


class ClosedError(TertuliaError):
    """What was addressed existed and has been closed."""

    code = "closed"


class BusyError(TertuliaError):
    """The slot, or a bounded queue, is taken; `detail["retry_after_s"]` says when to try again."""

    code = "busy"


class NotRunningError(TertuliaError):
    """There is no running task."""

    code = "not_running"


class AwaitingResultError(TertuliaError):
    """The conversation waits for another one's answer and cannot take a message."""

    code = "awaiting_result"


class MergeConflictError(TertuliaError):
    """A merge would have to choose between two sides; `detail["conflicts"]` names each path and kind."""

    code = "merge_conflict"


class UnsupportedByBackendError(TertuliaError):
    """The conversation's backend cannot do this."""

    code = "unsupported_by_backend"


class DepthExceededError(TertuliaError):
    """Too many conversations of one chain wait for one another."""

    code = "depth_exceeded"


class LimitError(TertuliaError):
    """A configured limit was reached; the message names it."""

    code = "limit"


class BudgetExceededError(LimitError):
    """The session has used what it may: no request is sent. `detail["budget"]`: `tokens` or `usd`."""

    code = "budget_exceeded"


class TaskTimeoutError(TertuliaError):
    """A task, or the wait for it, reached its deadline."""

    code = "timeout"


class TaskCancelledError(TertuliaError):
    """The task was stopped before its end."""

    code = "cancelled"


class OutcomeUnknownError(TertuliaError):
    """A crash cut something that may have had its effect, and that is not repeated unasked."""

    code = "outcome_unknown"


class ApprovalDeniedError(TertuliaError):
    """A person, or the policy, said no."""

    code = "approval_denied"


class NoApproverError(ApprovalDeniedError):
    """An approval is needed, and no approver is there or may be asked."""

    code = "no_approver"


class HookRefusedError(TertuliaError):
    """A hook of the user said no; the message names the hook."""

    code = "hook_refused"


class HookFailedError(HookRefusedError):
    """A hook gave no answer that can be used, before a call or at an approval, where that counts as a no."""

    code = "hook_failed"


class StoragePolicyViolationError(TertuliaError):
    """A write that the storage policy forbids; nothing was written."""

    code = "storage_policy_violation"


class ModelError(TertuliaError):
    """The model, or the way to it, failed."""

    code = "model_error"


class InvalidOutputError(TertuliaError):
    """The final answer does not fit `output_schema` or `output_type`, also after the model was asked to repair it."""

    code = "invalid_output"

    def __init__(self, message: str, errors: Sequence[str] = (), **detail: Detail) -> None:
        super().__init__(message, **detail)
        self.errors = tuple(errors)
        """What is wrong, each with its place in the answer. Not `detail`: it quotes the answer."""


class McpError(TertuliaError):
    """An MCP server, or a call to it, failed."""

    code = "mcp_error"


class StorageError(TertuliaError):
    """A session's record cannot be written or read; the message names the file and the way out."""

    code = "storage_error"


class SandboxError(TertuliaError):
    """A command could not be confined or broke its confinement."""

    code = "sandbox_error"


class SandboxUnavailableError(SandboxError):
    """There is no working sandbox here; the message says what to install."""

    code = "sandbox_unavailable"


class GitError(TertuliaError):
    """A worktree or a merge needs git, and it is not there, too old, in no repository, or failed; has git's words."""

    code = "git_error"


class ToolConflictError(TertuliaError):
    """Two different tools claim the same name."""

    code = "tool_conflict"


class InternalError(TertuliaError):
    """A bug of Tertulia, not of the caller."""

    code = "internal"


def error_for_code(code: str, message: str) -> TertuliaError:
    """The error of a code, to be raised where only the code is known; a plain TertuliaError for an unknown one.

    Args:
        code: The code, as `TertuliaError.code` has it.
        message: The sentence.

    Returns:
        An error of the class that has the code; its `code` is the one given in every case.
    """
    error = _CLASSES.get(code, TertuliaError)(message)
    error.code = code
    return error


def _by_code(kind: type[TertuliaError]) -> dict[str, type[TertuliaError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found |= _by_code(child)
    return found


_CLASSES = _by_code(TertuliaError)


def error_from_wire(code: object, message: str, **detail: Detail) -> TertuliaError:
    """The error that another process reported, as the class that has this code.

    Args:
        code: The `data.code` that it sent.
        message: What it said.
        detail: The other fields of its `data`.

    Returns:
        An error to raise; a plain TertuliaError where no class has that code.
    """
    kinds: list[type[TertuliaError]] = [TertuliaError]
    for kind in kinds:
        if kind.code == code:
            return kind(message, **detail)
        kinds.extend(kind.__subclasses__())
    return TertuliaError(message, **detail)
