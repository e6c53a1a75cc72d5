"""Signals at a plain terminal: some steps are done whole, and a signal that comes meanwhile counts after them."""

from __future__ import annotations

import os
import signal

import pytest

from tertulia.cli.plain.signals import LeaveSignal, Signals


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, LeaveSignal)], ids=["int", "term"]
)
def test_a_signal_in_a_step_that_is_done_whole_counts_at_its_end(
    number: signal.Signals, error: type[BaseException]
) -> None:
    """Or Ctrl-C right after Enter ends the program instead of the answer that has begun."""
    done = False
    with Signals() as signals:
        with pytest.raises(error), signals.held():
            os.kill(os.getpid(), number)
            done = True
        assert done
        with signals.held():
            # It counted once.
            done = False
    assert not done
