"""Ctrl-C as a request, then as an order."""

from __future__ import annotations

import signal

import pytest

from weft.cli.interrupt import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_asks_the_second_stops(capsys: pytest.CaptureFixture[str], number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked and stop.exit_code == 128 + number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before
    assert "stopping after this step" in capsys.readouterr().err
