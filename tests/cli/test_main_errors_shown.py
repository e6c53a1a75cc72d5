"""One sentence, the way out, and whose mistake it was."""

from __future__ import annotations

import click
import pytest

from tertulia.cli.main import explain_error
from tertulia.errors import ClosedError, InternalError, InvalidParamsError, ModelError, TertuliaError, ToolConflictError


@pytest.mark.parametrize("error", [InvalidParamsError("sandbox is wrong"), ToolConflictError("two tools")])
def test_what_the_user_can_mend_is_exit_code_2(error: TertuliaError) -> None:
    assert explain_error(error) == (f"tertulia: {error.message}", 2)


@pytest.mark.parametrize("error", [ClosedError("gone"), InternalError("ours"), ModelError("no answer")])
def test_what_went_wrong_is_exit_code_1(error: TertuliaError) -> None:
    assert explain_error(error) == (f"tertulia: {error.message}", 1)


def test_a_wrong_command_line_points_to_the_help_of_its_verb() -> None:
    context = click.Context(
        click.Command("exec"), info_name="exec", parent=click.Context(click.Command("t"), info_name="t")
    )
    sentence, code = explain_error(click.UsageError("there is no PROMPT", context))
    assert sentence == "t exec: there is no PROMPT. See `t exec --help`."
    assert code == 2


def test_a_question_keeps_its_mark() -> None:
    assert explain_error(click.UsageError("Did you mean -m?"))[0] == "tertulia: Did you mean -m? See `tertulia --help`."


def test_other_errors_of_the_command_line_are_mistakes_too() -> None:
    assert explain_error(click.ClickException("no")) == ("tertulia: no. See `tertulia --help`.", 2)
