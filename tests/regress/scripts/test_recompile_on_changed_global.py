"""What a scripted function takes from outside is a constant of its program; when Python calls it, and a name stands for
something else by then, it is compiled again.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft import nn

FACTOR, SIZES, SHIFT = 2, [1, 2], weft.ones(1)


def scaled(x):
    return x * FACTOR


def outer(x):
    def more(n: int) -> int:
        return n + FACTOR

    return scaled(x) + len(SIZES) + SHIFT + more(1)


class Inner(nn.Module):
    def forward(self, x):
        return x * FACTOR


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + FACTOR


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FACTOR", 2), ("SIZES", [1, 2]), ("SHIFT", weft.ones(1)), ("scaled", scaled)):
        monkeypatch.setitem(globals(), name, value)


def test_functions_and_those_that_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, x = weft.jit.script(outer), weft.ones(1)
    assert scripted(x).item() == outer(x).item() == 8
    program = scripted.__weft_program__
    assert scripted(x).item() == 8 and scripted.__weft_program__ is program  # nothing changed: nothing is compiled
    for name, value in (("FACTOR", 10), ("SHIFT", weft.zeros(1)), ("scaled", lambda x: x)):
        if name == "scaled":

            def value(x):
                return x - 1

        monkeypatch.setitem(globals(), name, value)
        assert scripted(x).item() == outer(x).item()
    SIZES.append(3)
    SHIFT.add_(1)  # tensors keep their identity: what is written to them is seen
    assert scripted(x).item() == outer(x).item()


def test_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, x = weft.jit.script(Outer()), weft.ones(1)
    assert scripted(x).item() == 4
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert scripted(x).item() == 10 and scripted.inner(x).item() == 5


def test_variables_of_functions_around() -> None:
    k = 2

    @weft.jit.script
    def times(x):
        return x * k

    assert times(weft.ones(1)).item() == 2
    k = 7
    assert times(weft.ones(1)).item() == 7
    assert weft.compile(lambda x: times(x))(weft.ones(1)).item() == 7


def test_a_change_that_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = weft.jit.script(scaled)
    monkeypatch.setitem(globals(), "FACTOR", object())
    with pytest.raises(weft.jit.CompileError, match="FACTOR is a object"):
        scripted(weft.ones(1))
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert scripted(weft.ones(1)).item() == 3
