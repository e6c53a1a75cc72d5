"""`--debug`: a log of one command line, and the places in the code that a failure came from."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from tertulia.cli.output.debug_log import DebugLog
from tertulia.policy.log_redaction import log_stack
from tertulia.terminal.device.log_file import ScreenLog
from tests.cli.running import Ran, Shell
from tests.tables import each_row


def log_of(ran: Ran) -> Path:
    """The file that standard error names."""
    (line,) = [line for line in ran.err.splitlines() if line.startswith("debug log: ")]
    return Path(line.removeprefix("debug log: "))


@each_row("arguments", [["--debug", "sessions", "show", "no-such"], ["sessions", "show", "no-such", "--debug"]])
def test_a_failure_is_followed_by_the_places_it_came_from(shell: Shell, arguments: list[str]) -> None:
    quiet = shell.run(*(word for word in arguments if word != "--debug"))
    ran = shell.run(*arguments)
    file = log_of(ran)

    assert ran.code == quiet.code != 0
    assert quiet.err in ran.err
    assert "cli/main.py" not in quiet.err
    assert "InvalidParamsError\n" in ran.err
    assert "cli/main.py" in ran.err
    assert "InvalidParamsError\n" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_log_ends_with_its_command_line(shell: Shell) -> None:
    before = logging.getLogger().handlers[:], logging.getLogger("tertulia").level
    ran = shell.run("--debug", "sessions", "ls", "--debug")

    assert ran.code == 0
    assert "tertulia 0." in log_of(ran).read_text()
    assert (logging.getLogger().handlers[:], logging.getLogger("tertulia").level) == before


def test_what_a_person_wrote_is_in_neither(shell: Shell) -> None:
    """E6"""
    script = shell.script({"error": "canary-of-the-model"})
    ran = shell.run("exec", "--debug", "--storage", "headers-only", "-q", "-m", script, "canary-of-the-person")

    assert ran.code == 1
    assert "canary" not in log_of(ran).read_text()


def test_places_of_an_error_come_without_messages_and_with_causes() -> None:
    with pytest.raises(RuntimeError) as raised:
        try:
            raise ValueError("canary")
        except ValueError as error:
            raise RuntimeError("canary") from error
    lines = log_stack(raised.value).splitlines()

    assert [line for line in lines if not line.startswith("  ")] == ["RuntimeError", "ValueError"]
    assert any("test_debug_log.py" in line for line in lines)
    assert not any("canary" in line for line in lines)


def test_it_goes_on_while_the_screen_stands_without_secrets_and_other_libraries(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    log = DebugLog(tmp_path / "logs")
    try:
        with ScreenLog() as screen:
            logging.getLogger("tertulia.test").debug("early %s", key)
            screen.write_to(tmp_path / "logs")
            logging.getLogger("tertulia.test").debug("late")
            logging.getLogger("another.library").debug("canary")
    finally:
        log.close()
    text = log.path.read_text()

    assert text.index("early") < text.index("late")
    assert key not in text
    assert "canary" not in text
