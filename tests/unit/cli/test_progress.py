"""What is shown while training runs."""

from __future__ import annotations

import pytest

from weft.cli import progress


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.show_progress(0, 120) as shown:
        assert isinstance(shown, progress.Lines)
        for step in range(1, 121):
            shown.step_done(step, [2.5] * step, 64)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["50/120", "100/120", "120/120"]
    assert all("loss 2.500" in line and line.endswith("tokens/s") for line in lines)


def test_speed_counts_the_time_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 100.5, 101.0, 102.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    recent = progress.Recent()
    recent.add([3.0], 10)
    assert recent.tokens_per_second == 0.0
    for i in range(3):
        recent.add([3.0, *[1.0] * (i + 1)], 10)
    assert recent.tokens_per_second == 15.0 and recent.loss == 1.5


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys.stdout, "isatty", lambda: True, raising=False)
    with progress.show_progress(3, 5) as shown:
        assert isinstance(shown, progress.Bar)
        shown.step_done(4, [1.0] * 4, 10)
        shown.step_done(5, [1.0] * 5, 10)


def test_losses_that_are_read_now_and_then_are_those_of_their_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """In lazy mode ten losses are read at once: lines show the same as in other modes."""
    losses = [float(i) for i in range(1, 101)]
    for known in (lambda step: step, lambda step: step // 10 * 10 or 1):
        with progress.show_progress(0, 100) as shown:
            for step in range(1, 101):
                shown.step_done(step, losses[: known(step)], 64)
    lines = [line.split("loss ")[1].split()[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["40.500", "90.500"] * 2
