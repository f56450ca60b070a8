"""Ctrl-C as a request, then as an order."""

from __future__ import annotations

import signal

import pytest

from weft.cli.interrupt import StopRequest


def test_the_first_asks_the_second_stops(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after this step" in capsys.readouterr().err
