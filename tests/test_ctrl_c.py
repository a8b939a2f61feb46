"""Ctrl-C is heard, even where the code that runs at that moment swallows it."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from se_rl.commands.ctrl_c import CtrlC


def test_a_swallowed_interrupt_is_heard_at_the_next_event() -> None:
    before, told = signal.getsignal(signal.SIGINT), list[str]()
    with CtrlC() as ctrl_c:
        tell = ctrl_c.heeding(told.append)
        tell("one")
        with suppress(KeyboardInterrupt):  # as a finaliser does
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            tell("two")
    assert told == ["one"] and signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_heard_at_once() -> None:
    with CtrlC(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
