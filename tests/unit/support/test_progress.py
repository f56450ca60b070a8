"""The line about a long compilation: on terminals, or where it is asked for; what it says; and that it goes."""

from __future__ import annotations

import io
import threading

import pytest

import weft
from weft.support.progress import Progress, is_wanted, progress, progress_shown


class Screen(io.StringIO):
    """A stream that remembers being written to; a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.written = terminal, threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.mark.parametrize("terminal", [True, False])
def test_only_terminals_want_it_unless_asked(terminal: bool) -> None:
    screen = Screen(terminal)
    assert is_wanted(screen) is terminal
    with weft.knobs(progress="on"):
        assert is_wanted(screen)
    with weft.knobs(progress="off"):
        assert not is_wanted(screen)
    assert not is_wanted(None)  # a process without stderr


def test_a_notebook_wants_it_and_its_line_goes_again() -> None:
    screen = type("OutStream", (Screen,), {"__module__": "ipykernel.iostream"})(False)
    assert is_wanted(screen)
    with progress_shown("step", screen, delay=0):
        assert screen.written.wait(60)
    assert screen.getvalue().startswith("\rweft: compiling step") and screen.getvalue().endswith("\r")


def test_what_a_line_says() -> None:
    p = Progress("step")
    p.stage("grouping", 21454)
    assert p.line() == "weft: compiling step (0 s): grouping, 21,454 operators"
    p.done = 8600
    assert p.line().endswith("grouping, 40 % of 21,454 operators")
    p.stage("recording", growing=[0] * 1200)
    assert p.line().endswith("recording, 1,200 operators")
    p.stage("linking")
    assert p.line().endswith(": linking")


def test_the_line_of_a_terminal_goes_again() -> None:
    screen = Screen(True)
    with progress_shown("step", screen, delay=0) as mine:
        assert progress() is mine
        mine.stage("waiting")
        assert screen.written.wait(60)
    assert progress() is not mine
    lines = screen.getvalue().split("\r")
    assert "compiling step" in lines[1] and not lines[-2].strip() and lines[-1] == ""


def test_a_quick_compilation_says_nothing() -> None:
    screen = Screen(True)
    with progress_shown("step", screen, delay=600):
        pass
    assert screen.getvalue() == ""


def test_every_part_of_a_compilation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    stage = Progress.stage

    def note(self: Progress, text: str, *args: object, **kwargs: object) -> None:
        named.append(text)
        stage(self, text, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Progress, "stage", note)
    weft.compile(lambda x: (x * 2).sum()).entry_for((weft.rand(3, 7),), {})
    wanted = iter(["recording", "pass decompose"])
    following = next(wanted)
    for text in named:
        following = next(wanted, "") if text == following else following
    assert following == ""
